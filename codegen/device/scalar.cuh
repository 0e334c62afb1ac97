// Names of the machine's integers, the same on the device and on the host target.
#pragma once

namespace kiln {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using i32 = int;
using i64 = long long;
using u64 = unsigned long long;

template <class A, class B> inline constexpr bool same_type = false;
template <class A> inline constexpr bool same_type<A, A> = true;
template <bool is_first, class A, class B> struct Conditional {
  using type = A;
};
template <class A, class B> struct Conditional<false, A, B> {
  using type = B;
};
template <bool is_first, class A, class B>
using conditional = typename Conditional<is_first, A, B>::type;

} // namespace kiln

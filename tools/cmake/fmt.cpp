// The functions of {fmt}, for targets that link kiln_fmt. The templates below are those that
// fmt/format.h declares to be instantiated in one place.
#include <fmt/format-inl.h>

namespace fmt::detail {

template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl(locale_ref);

} // namespace fmt::detail

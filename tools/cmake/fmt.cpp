// The functions of {fmt}, for targets that link kiln_fmt. The templates below are those that its
// headers leave to be instantiated in one place.
#include <fmt/format-inl.h>

namespace fmt::detail {
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl(locale_ref);
} // namespace fmt::detail

#if FMT_VERSION < 120000
namespace fmt::detail {
template locale_ref::locale_ref(const std::locale&);
template std::locale locale_ref::get<std::locale>() const;
} // namespace fmt::detail
#else
namespace fmt {
template std::locale locale_ref::get<std::locale>() const;
} // namespace fmt
#endif

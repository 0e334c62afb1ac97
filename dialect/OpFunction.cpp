// See OpFunction.h.
#include "dialect/OpFunction.h"

using namespace llvm;

namespace kiln::ir {

std::string sizesText(ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + (size < 0 ? std::string("?") : std::to_string(size));
  return text;
}

std::string tensorText(ArrayRef<int64_t> shape, StringRef element) {
  return "tensor<" + sizesText(shape) + (shape.empty() ? "" : "x") + element.str() + ">";
}

Error refusal(const OpRequest& request, const std::string& problem) {
  return createStringError("op '" + request.op + "' " + problem);
}

Expected<std::string> RowFunction::text(const OpRequest& request) const {
  const ArrayRef<int64_t> shape = request.shape;
  if (shape.empty())
    return refusal(request,
                   "has no shape; give leading sizes and the row width, 65536x128 or ?x128");
  if (shape.back() < 1)
    return refusal(request, "with shape " + sizesText(shape) +
                                ": the last size, the row width, must be a constant of at least 1");
  const ArrayRef<int64_t> leading = shape.drop_back();
  std::string text = StringRef(pattern).ltrim().str();
  if (leading.empty() && text.find("$index") != std::string::npos) {
    const std::string width = std::to_string(shape[0]);
    return refusal(request, "has 1 size (" + width +
                                "); it has an index a row and needs 2 or more, leading sizes and "
                                "then the row width, such as 8192x" +
                                width);
  }
  const std::pair<StringRef, std::string> types[] = {{"$x", tensorText(shape, request.element)},
                                                     {"$row", tensorText(shape.back(), "f32")},
                                                     {"$each", tensorText(leading, "f32")},
                                                     {"$index", tensorText(leading, "i64")}};
  for (const auto& [word, type] : types)
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at))
      text.replace(at, word.size(), type);
  return text;
}

std::vector<int64_t> RowFunction::open(OpRequest& request) const {
  std::vector<int64_t> sizes;
  for (int64_t& size : MutableArrayRef(request.shape).drop_back())
    sizes.push_back(std::exchange(size, -1));
  return sizes;
}

} // namespace kiln::ir

// See Data.h.
#include "models/lm/Data.h"

#include "models/common/Fail.h"
#include "models/common/Folder.h"
#include "models/common/Random.h"
#include "models/common/Safetensors.h"
#include "models/lm/Config.h"

#include <ATen/ATen.h>

namespace kiln::lm {

namespace fs = std::filesystem;
using at::Tensor;

namespace {

Tensor mapped(const fs::path& path) {
  std::error_code error;
  const auto size = static_cast<std::int64_t>(fs::file_size(path, error));
  if (error)
    fail(ErrorKind::missing, "--data={} cannot be read: {}", path.string(), error.message());
  if (size == 0)
    fail(ErrorKind::input, "--data={} is empty", path.string());
  return at::from_file(path.string(), /*shared=*/false, size, at::kByte);
}

/// What tokens in a file were made of. A text that has changed has another size or another time.
Metadata originOf(const fs::path& text, const Tokenizer& tokenizer) {
  return {{"text", fs::absolute(text).string()},
          {"bytes", std::to_string(fs::file_size(text))},
          {"time", std::to_string(fs::last_write_time(text).time_since_epoch().count())},
          {"tokenizer", tokenizer.text()}};
}

} // namespace

Data Data::open(const fs::path& text, const Tokenizer& tokenizer, const fs::path& folder) {
  const Tensor bytes = mapped(text);
  if (tokenizer.vocabulary() == 256)
    return Data(bytes);
  const fs::path path = folder / "tokens.safetensors";
  const Metadata origin = originOf(text, tokenizer);
  if (fs::exists(path))
    if (const Safetensors known(path); known.metadata() == origin)
      return Data(known.tensor("tokens"));
  std::vector<Token> encoded = tokenizer.encode(
      {static_cast<const char*>(bytes.const_data_ptr()), std::size_t(bytes.numel())});
  Tensor tokens = at::from_blob(encoded.data(), {std::int64_t(encoded.size())}, at::kInt);
  if (tokenizer.vocabulary() <= 65536)
    tokens = tokens.to(at::kUInt16);
  models::makeFolder(folder);
  writeSafetensors(path, {{"tokens", tokens}}, origin);
  return Data(Safetensors(path).tensor("tokens"));
}

void Data::split(double share, std::int64_t length) {
  context = length;
  const std::int64_t held =
      share > 0 ? std::max(std::int64_t(share * double(tokens.numel())), context + 1) : 0;
  cut = tokens.numel() - held;
  if (cut < context + 1)
    fail(ErrorKind::input,
         "the data has {} tokens, of which {} are held out; a window takes --context={} and one "
         "more: give more text or a smaller --context",
         tokens.numel(), held, context);
}

Batch Data::windows(const std::vector<std::int64_t>& starts) const {
  std::vector<Tensor> rows;
  for (std::int64_t start : starts)
    rows.push_back(tokens.slice(0, start, start + context + 1).to(at::kLong));
  const Tensor all = at::stack(rows);
  return {all.slice(1, 0, context).contiguous(), all.slice(1, 1).contiguous()};
}

Batch Data::batch(std::uint64_t seed, std::int64_t first, std::int64_t rows) const {
  std::vector<std::int64_t> starts;
  const auto places = std::uint64_t(cut - context);
  for (std::int64_t row = first; row < first + rows; ++row)
    starts.push_back(std::int64_t(models::mix(models::mix(seed) + std::uint64_t(row)) % places));
  return windows(starts);
}

Batch Data::heldOutBatch(std::int64_t index, std::int64_t rows) const {
  if (heldOut() < context + 1)
    fail(ErrorKind::input, "{} tokens are held out, and a window takes {}", heldOut(), context + 1);
  std::vector<std::int64_t> starts;
  const std::int64_t count = (heldOut() - 1) / context;
  for (std::int64_t row = 0; row < rows; ++row)
    starts.push_back(cut + (index * rows + row) % count * context);
  return windows(starts);
}

} // namespace kiln::lm

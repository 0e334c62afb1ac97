// See Text.h.
#include "models/alphafold/features/Text.h"

#include "kiln/files.h"
#include "models/common/Fail.h"

#include <algorithm>
#include <memory>
#include <zlib.h>

namespace kiln::alphafold {

namespace {

constexpr std::size_t largestText = std::size_t(2) << 30; // bytes
constexpr std::string_view blanks = " \t\v\f";

} // namespace

std::string unzip(std::string_view bytes, const std::string& name) {
  z_stream stream{};
  constexpr int gzip = 16 + MAX_WBITS;
  if (inflateInit2(&stream, gzip) != Z_OK)
    models::fail(ErrorKind::io, "{}: zlib cannot begin", name);
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  std::string result;
  char chunk[1 << 16];
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data())); // which is only read
  stream.avail_in = static_cast<uInt>(bytes.size());
  while (true) {
    stream.next_out = reinterpret_cast<Bytef*>(chunk);
    stream.avail_out = sizeof chunk;
    const int status = inflate(&stream, Z_NO_FLUSH);
    result.append(chunk, sizeof chunk - stream.avail_out);
    if (result.size() > largestText)
      models::fail(ErrorKind::input, "{}: it unpacks to more than {} bytes, which is the most",
                   name, largestText);
    if (status == Z_STREAM_END && stream.avail_in == 0)
      return result;
    if (status == Z_STREAM_END && inflateReset(&stream) == Z_OK) // another member follows
      continue;
    if (status != Z_OK)
      models::fail(ErrorKind::input,
                   "{}: the gzipped data {} after {} bytes of text; fetch the file again", name,
                   status == Z_BUF_ERROR ? "is cut off" : "is damaged", result.size());
  }
}

Text readText(const std::filesystem::path& path) {
  std::string contents = readFile(path);
  if (contents.size() > largestText)
    models::fail(ErrorKind::input, "{}: {} bytes; at most {} are read", path.string(),
                 contents.size(), largestText);
  if (contents.starts_with("\x1f\x8b"))
    contents = unzip(contents, path.string());
  return {path.string(), std::move(contents)};
}

bool Lines::next(std::string_view& line) {
  if (rest.empty())
    return false;
  const std::size_t end = rest.find('\n');
  line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (line.ends_with('\r'))
    line.remove_suffix(1);
  ++count;
  return true;
}

void Lines::refuse(const std::string& text) const {
  models::fail(ErrorKind::input, "{}:{}: {}", name, count, text);
}

std::string_view nextWord(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(blanks));
  line.remove_prefix(word.size());
  return word;
}

std::string_view lastWord(std::string_view& line) {
  const std::size_t last = line.find_last_not_of(blanks);
  line = line.substr(0, last == std::string_view::npos ? 0 : last + 1);
  const std::size_t before = line.find_last_of(blanks);
  const std::string_view word = line.substr(before == std::string_view::npos ? 0 : before + 1);
  line.remove_suffix(word.size());
  return word;
}

std::string inQuotes(std::string_view word) {
  constexpr std::size_t longest = 40; // bytes that a message shows
  const std::string shown = printable(word.substr(0, longest));
  return "'" + shown + (word.size() > longest ? "...'" : "'");
}

} // namespace kiln::alphafold

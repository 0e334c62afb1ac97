// The .npy header is a Python dictionary of three keys; only that much Python is read here.
#include "kiln/npy.h"

#include "codegen/backend/Fail.h"
#include "kiln/files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

namespace kiln {

namespace {

constexpr std::string_view magic = "\x93NUMPY";

struct Descriptor {
  std::string_view text;
  DType dtype;
};

/// The first spelling of a type is the one written. Little-endian or endianless only.
constexpr Descriptor descriptors[] = {
    {"<f8", DType::f64},  {"<f4", DType::f32},       {"<V2", DType::bf16},
    {"|V2", DType::bf16}, {"bfloat16", DType::bf16}, {"<bfloat16", DType::bf16},
    {"<f2", DType::f16},  {"<i8", DType::i64},       {"<i4", DType::i32},
    {"|b1", DType::i1},   {"?", DType::i1}};

/// Reads the dictionary from left to right; every failure names the file and the place.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view origin) : text(text), origin(origin) {}

  void parse(NpyArray& array) {
    bool seenType = false, seenOrder = false, seenShape = false;
    expect('{');
    while (!accept('}')) {
      std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        array.dtype = type();
        seenType = true;
      } else if (key == "fortran_order") {
        fortran = boolean();
        seenOrder = true;
      } else if (key == "shape") {
        array.shape = tuple();
        seenShape = true;
      } else {
        malformed("unknown key in the header");
      }
      if (!accept(',') && peek() != '}')
        malformed("',' or '}' expected");
    }
    skip();
    if (position != text.size())
      malformed("text after the header's '}'");
    if (!seenType || !seenOrder || !seenShape)
      malformed("the header needs 'descr', 'fortran_order' and 'shape'");
    if (fortran && array.shape.size() > 1)
      fail(ErrorKind::input,
           "'{}': the array is column-major; save it with numpy.ascontiguousarray first", origin);
  }

 private:
  [[noreturn]] void malformed(std::string_view what) const {
    fail(ErrorKind::input, "'{}': malformed .npy file: {} (header byte {})", origin, what,
         position);
  }
  void skip() {
    while (position < text.size() && std::strchr(" \t\r\n", text[position]) && text[position])
      ++position;
  }
  char peek() {
    skip();
    return position < text.size() ? text[position] : '\0';
  }
  bool accept(char wanted) {
    if (peek() != wanted)
      return false;
    ++position;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted))
      malformed(fmt::format("'{}' expected", wanted));
  }
  std::string_view quoted() {
    char quote = peek();
    if (quote != '\'' && quote != '"')
      malformed("a string was expected");
    std::size_t end = text.find(quote, position + 1);
    if (end == std::string_view::npos)
      malformed("a string does not end");
    std::string_view result = text.substr(position + 1, end - position - 1);
    position = end + 1;
    return result;
  }
  DType type() {
    if (peek() == '[')
      malformed("structured types are not supported");
    std::string_view text = quoted();
    for (const Descriptor& known : descriptors)
      if (known.text == text)
        return known.dtype;
    fail(ErrorKind::input,
         "'{}': element type '{}' is not supported; allowed are float64, float32, float16, "
         "bfloat16, int64, int32 and bool, little-endian",
         origin, text);
  }
  bool boolean() {
    skip();
    for (std::string_view word : {"True", "False"})
      if (text.substr(position, word.size()) == word) {
        position += word.size();
        return word == "True";
      }
    malformed("True or False expected");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> sizes;
    expect('(');
    while (!accept(')')) {
      std::int64_t size = 0;
      skip();
      auto [end, error] = std::from_chars(text.data() + position, text.data() + text.size(), size);
      if (error != std::errc() || size < 0 || sizes.size() == 64)
        malformed("a shape is up to 64 sizes of 0 or more");
      position = static_cast<std::size_t>(end - text.data());
      accept('L'); // written by Python 2
      sizes.push_back(size);
      if (!accept(',') && peek() != ')')
        malformed("',' or ')' expected");
    }
    return sizes;
  }

  std::string_view text, origin;
  std::size_t position = 0;
  bool fortran = false;
};

std::size_t dataBytes(const NpyArray& array, std::string_view origin) {
  std::int64_t bytes = static_cast<std::int64_t>(sizeInBytes(array.dtype));
  bool empty = std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
  for (std::int64_t size : array.shape)
    if (size < 0 || (!empty && __builtin_mul_overflow(bytes, size, &bytes)))
      fail(ErrorKind::input, "'{}': size {} of the shape is negative or makes it too large", origin,
           size);
  return empty ? 0 : static_cast<std::size_t>(bytes);
}

} // namespace

NpyArray parseNpy(std::span<const std::byte> bytes, std::string_view origin) {
  std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (file.substr(0, magic.size()) != magic || file.size() < 10)
    fail(ErrorKind::input, "'{}' is no .npy file: it does not begin with \\x93NUMPY", origin);
  auto byteAt = [&](std::size_t i) { return static_cast<std::size_t>(bytes[i]); };
  std::size_t version = byteAt(6), start = version == 1 ? 10 : 12;
  if (version < 1 || version > 3 || file.size() < start)
    fail(ErrorKind::input, "'{}': .npy version {} is not supported; allowed are 1 to 3", origin,
         version);
  std::size_t length = byteAt(8) | byteAt(9) << 8;
  if (version > 1)
    length |= byteAt(10) << 16 | byteAt(11) << 24;
  if (length > file.size() - start)
    fail(ErrorKind::input, "'{}': the header needs {} bytes, the file has {} left", origin, length,
         file.size() - start);
  NpyArray array;
  HeaderParser(file.substr(start, length), origin).parse(array);
  std::size_t wanted = dataBytes(array, origin), given = file.size() - start - length;
  if (wanted != given)
    fail(ErrorKind::input, "'{}': the shape needs {} bytes of data, the file has {}", origin,
         wanted, given);
  array.data.assign(bytes.begin() + static_cast<std::ptrdiff_t>(start + length), bytes.end());
  return array;
}

std::vector<std::byte> toNpy(const NpyArray& array) {
  if (std::size_t wanted = dataBytes(array, "<array>"); wanted != array.data.size())
    fail(ErrorKind::input, "an array of {} bytes cannot be written: its shape needs {}",
         array.data.size(), wanted);
  const Descriptor* type =
      std::find_if(std::begin(descriptors), std::end(descriptors),
                   [&](const Descriptor& known) { return known.dtype == array.dtype; });
  std::string shape;
  for (std::int64_t size : array.shape)
    shape += fmt::format("{}, ", size);
  if (array.shape.size() > 1)
    shape.resize(shape.size() - 2);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type->text, shape);
  // The data begins at a multiple of 64 bytes; the last byte of the header ends a line.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string file(magic);
  file += '\x01';
  file += '\0';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  std::vector<std::byte> result(file.size() + array.data.size());
  std::memcpy(result.data(), file.data(), file.size());
  std::copy(array.data.begin(), array.data.end(),
            result.begin() + static_cast<std::ptrdiff_t>(file.size()));
  return result;
}

NpyArray readNpy(const std::filesystem::path& path) {
  std::string contents = readFile(path);
  return parseNpy(std::as_bytes(std::span(contents.data(), contents.size())), path.string());
}

void writeNpy(const std::filesystem::path& path, const NpyArray& array) {
  writeFile(path, toNpy(array));
}

} // namespace kiln

// .npy files: round trips, files as NumPy writes them, and malformed ones.
#include "kiln/npy.h"
#include "test/backend/Helpers.h"

#include <cstring>
#include <random>

using namespace kiln;
using namespace kiln::test;

namespace {

std::vector<std::byte> bytesOf(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

/// A file with this header; the length field is right unless the test says otherwise.
std::vector<std::byte> fileOf(const std::string& header, const std::string& data) {
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\0';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return bytesOf(file + header + data);
}

std::string errorFor(const std::string& header, const std::string& data = "") {
  return errorOf(ErrorKind::input, [&] { parseNpy(fileOf(header, data), "t.npy"); });
}

TEST(Npy, RoundTrip) {
  TemporaryFolder folder;
  std::mt19937 random(1);
  for (DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i1})
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{}, {5}, {2, 3}, {0, 7}, {1, 2, 3, 4}}) {
      NpyArray array{dtype, shape, {}};
      std::size_t size = sizeInBytes(dtype);
      for (std::int64_t s : shape)
        size *= static_cast<std::size_t>(s);
      for (std::size_t i = 0; i < size; ++i)
        array.data.push_back(static_cast<std::byte>(random()));
      writeNpy(folder.path / "t.npy", array);
      NpyArray back = readNpy(folder.path / "t.npy");
      EXPECT_EQ(back.dtype, dtype);
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(back.data, array.data);
    }
}

TEST(Npy, WritesWhatNumPyWrites) {
  NpyArray array{DType::f32, {2, 1}, std::vector<std::byte>(8)};
  std::vector<std::byte> file = toNpy(array);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  header.resize(117, ' '); // magic, version and length take 10 bytes: 128 in all
  EXPECT_EQ(file, fileOf(header + "\n", std::string(8, '\0')));
}

TEST(Npy, ReadsOtherSpellings) {
  NpyArray array =
      parseNpy(fileOf("{\"shape\":(3L,),\"fortran_order\":True,\"descr\":\"|V2\"}\n", "abcdef"));
  EXPECT_EQ(array.dtype, DType::bf16);
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(parseNpy(fileOf("{'descr':'bfloat16','fortran_order':False,'shape':()}", "ab")).dtype,
            DType::bf16);
}

TEST(Npy, Malformed) {
  EXPECT_HAS(errorOf(ErrorKind::input, [] { parseNpy(bytesOf("PK\x03\x04 zip file"), "t.npz"); }),
             "'t.npz' is no .npy file");
  EXPECT_HAS(errorFor("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "1234"),
             "'t.npy': element type '>f4' is not supported; allowed are float64");
  EXPECT_HAS(errorFor("{'descr': '<c8', 'fortran_order': False, 'shape': ()}"), "'<c8'");
  EXPECT_HAS(errorFor("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}"),
             "structured types");
  EXPECT_HAS(
      errorFor("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", std::string(16, 'x')),
      "column-major");
  EXPECT_HAS(errorFor("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "1234"),
             "the shape needs 8 bytes of data, the file has 4");
  EXPECT_HAS(errorFor("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}"), "sizes of 0");
  EXPECT_HAS(errorFor("{'descr': '<f4', 'fortran_order': False, "
                      "'shape': (4611686018427387904, 4)}"),
             "too large");
  EXPECT_HAS(errorFor("{'descr': '<f4', 'shape': ()}"), "needs 'descr', 'fortran_order'");
  EXPECT_HAS(errorFor("{'descr': '<f4"), "a string does not end");
  EXPECT_HAS(errorFor("{'name': 3}"), "unknown key");
}

TEST(Npy, DamagedFilesAreRefusedOrRead) {
  std::vector<std::byte> good = toNpy({DType::f32, {2, 3}, std::vector<std::byte>(24)});
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THROW(parseNpy(std::span(good).first(size)), Error);
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bad = good;
    bad[random() % 90] = static_cast<std::byte>(random());
    try {
      parseNpy(bad);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input);
    }
  }
}

} // namespace

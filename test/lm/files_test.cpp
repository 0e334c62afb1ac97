// Formats and options of models/lm: safetensors, tokenizers, data, sizes, and what is refused.
#include "models/common/Safetensors.h"
#include "models/lm/Config.h"
#include "models/lm/Data.h"
#include "models/lm/Schedule.h"
#include "test/lm/Helpers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace kiln::lm {
namespace {

using at::Tensor;
using nlohmann::json;

std::vector<NamedTensor> someTensors() {
  return {{"bytes", at::arange(7, at::kByte)},
          {"matrix", at::arange(12, at::kFloat).view({3, 4}).t()}, // written contiguously
          {"half", at::randn({2, 3}).to(at::kBFloat16)},
          {"empty", at::empty({0, 5})},
          {"scalar", at::scalar_tensor(42, at::kLong)}};
}

/// The layout itself, read by nothing of ours: length, header, elements at their offsets.
TEST(Lm, SafetensorsAreLaidOutAsTheFormatSays) {
  const Folder folder;
  writeSafetensors(folder / "a.safetensors", someTensors(), {{"format", "pt"}});
  const std::string file = readFile(folder / "a.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  EXPECT_EQ(length % 8, 0U);
  const json header = json::parse(file.substr(8, length));
  EXPECT_EQ(header["__metadata__"]["format"], "pt");
  EXPECT_EQ(header["matrix"]["dtype"], "F32");
  EXPECT_EQ(header["matrix"]["shape"], json({4, 3}));
  EXPECT_EQ(header["half"]["dtype"], "BF16");
  EXPECT_EQ(header["scalar"]["shape"], json::array());
  std::vector<float> matrix(12);
  const std::size_t begin = header["matrix"]["data_offsets"][0];
  EXPECT_EQ(header["matrix"]["data_offsets"][1], begin + 48);
  std::memcpy(matrix.data(), file.data() + 8 + length + begin, 48);
  EXPECT_EQ(matrix[1], 4); // row 0 of the transposed matrix is 0, 4, 8
  std::size_t bytes = 0;
  for (const auto& [name, entry] : header.items())
    if (name != "__metadata__") {
      const std::size_t from = entry["data_offsets"][0], to = entry["data_offsets"][1];
      bytes += to - from;
    }
  EXPECT_EQ(8 + length + bytes, file.size());
}

TEST(Lm, SafetensorsComeBack) {
  const Folder folder;
  const auto tensors = someTensors();
  writeSafetensors(folder / "a.safetensors", tensors, {{"a", "b"}});
  EXPECT_FALSE(std::filesystem::exists(folder / "a.safetensors.partial"));
  const Safetensors file(folder / "a.safetensors");
  EXPECT_EQ(file.metadata(), (Metadata{{"a", "b"}}));
  EXPECT_EQ(file.names().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.tensor(name).scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(at::equal(file.tensor(name), tensor)) << name;
  }
  Tensor wrong = at::empty({3, 4});
  EXPECT_SAYS(errorOf([&] { file.read("matrix", wrong); }),
              "matrix is Float [4, 3], and Float [3, 4] is needed");
  EXPECT_SAYS(errorOf([&] { file.tensor("other"); }), "has no tensor other; it has 5 others");
}

TEST(Lm, DamagedSafetensorsAreRefusedWithNumbers) {
  const Folder folder;
  const auto path = folder / "a.safetensors";
  auto says = [&](const std::string& content) {
    writeFile(path, content);
    return errorOf([&] { Safetensors file(path); });
  };
  auto withHeader = [](std::string header, std::size_t bytes) {
    const std::uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header +
           std::string(bytes, '\0');
  };
  EXPECT_SAYS(says("abc"), "has 3 bytes");
  EXPECT_SAYS(says(std::string(16, '\x7f')), "its header would have 9187201950435737471 bytes");
  EXPECT_SAYS(says(withHeader("{nonsense", 0)), "its header is not as it should be");
  EXPECT_SAYS(says(withHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7)),
              "a F32 [2] takes 8 bytes, and its offsets are 0 to 8 of 7 bytes");
  EXPECT_SAYS(says(withHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9)),
              "tensors take 8 bytes, and the file holds 9");
  EXPECT_SAYS(says(withHeader(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", 4)),
              "tensors end at byte 0 and go on at byte 2");
  EXPECT_SAYS(says(withHeader(R"({"a":{"dtype":"F8","shape":[2],"data_offsets":[0,2]}})", 2)),
              "dtype F8");
  EXPECT_SAYS(says(withHeader(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4)),
              "[-1]");
  writeSafetensors(path, someTensors(), {});
  const std::string whole = readFile(path);
  for (std::size_t size = 0; size < whole.size(); size += 5)
    EXPECT_NE(says(whole.substr(0, size)), "no error") << size;
}

TEST(Lm, TokenizersGiveBackWhatTheyWereGiven) {
  const std::string text = readFile(KILN_LM_TEXT);
  const Tokenizer bytes, pairs = Tokenizer::train(text, 512);
  EXPECT_EQ(pairs.vocabulary(), 512);
  EXPECT_LT(pairs.encode(text).size(), text.size() * 6 / 10);
  std::string odd = "a  b\t\n\n  7,5 \xc3\xa4\xff";
  odd += std::string(3, '\0');
  for (const Tokenizer* tokenizer : {&bytes, &pairs})
    for (const std::string& one : {text, odd, std::string(), std::string("   ")})
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(one)), one);
  EXPECT_EQ(Tokenizer::train(text, 512).text(), pairs.text());
  EXPECT_EQ(Tokenizer::train("ab ab ab", 1000).vocabulary(), 258); // ab, and blank ab
}

TEST(Lm, MergesAreByFrequencyAndThenByToken) {
  // "aaab" twice: aa 4 (overlapping), ab 2; then (aa, a) and (aa, b) come to 2 each ...
  const Tokenizer made = Tokenizer::train("aaab aaab", 258);
  EXPECT_EQ(json::parse(made.text())["merges"][0], json({97, 97}));
  EXPECT_EQ(made.encode("aaab"), (std::vector<Token>{256, 257}));
  std::vector<std::string> words;
  forEachWord("He said: \"12 times\"\n  x", [&](std::string_view w) { words.emplace_back(w); });
  EXPECT_EQ(words, (std::vector<std::string>{"He", " said", ":", " \"", "12", " times", "\"", "\n ",
                                             " x"}));
}

TEST(Lm, TokenizersAreSavedAndBadOnesRefused) {
  const Folder folder;
  const Tokenizer made = Tokenizer::train("one two one two one two", 262);
  made.save(folder / "t.json");
  EXPECT_EQ(Tokenizer::load(folder / "t.json").text(), made.text());
  EXPECT_SAYS(errorOf([&] { Tokenizer::load(folder / "none.json"); }), "cannot be read");
  auto says = [&](const char* content) {
    writeFile(folder / "bad.json", content);
    return errorOf([&] { Tokenizer::load(folder / "bad.json"); });
  };
  EXPECT_SAYS(says("{"), "bad.json is no tokenizer");
  EXPECT_SAYS(says(R"({"format":"other"})"), "format \"other\"");
  EXPECT_SAYS(says(R"({"format":"kiln byte pairs","merges":[[97,256]]})"),
              "merge 0 joins tokens 97 and 256; it may join 0 to 255");
  EXPECT_SAYS(says(R"({"format":"kiln byte pairs","merges":[[1,2],[1,2]]})"), "as one before it");
  EXPECT_SAYS(errorOf([&] { made.decode({0, 999}); }), "token 999");
  EXPECT_SAYS(errorOf([] { Tokenizer::train("a", 100); }), "a vocabulary of 100 tokens");
}

TEST(Lm, DataFollowFromTheSeedAndTheStep) {
  Data data(at::arange(1000, at::kInt));
  data.split(0.1, 20);
  EXPECT_EQ(data.trained(), 900);
  EXPECT_EQ(data.heldOut(), 100);
  const Batch all = data.batch(3, 0, 8), rest = data.batch(3, 5, 3), other = data.batch(4, 0, 8);
  EXPECT_EQ(all.inputs.sizes(), (at::IntArrayRef{8, 20}));
  EXPECT_TRUE(at::equal(all.targets, all.inputs + 1)); // the successor of n is n + 1 here
  EXPECT_TRUE(at::equal(all.inputs.slice(0, 5), rest.inputs));
  EXPECT_FALSE(at::equal(all.inputs, other.inputs));
  EXPECT_LT(data.batch(3, 0, 500).targets.max().item<std::int64_t>(), 900);
  EXPECT_GE(data.heldOutBatch(0, 50).inputs.min().item<std::int64_t>(), 900);
  EXPECT_SAYS(errorOf([&] { data.split(0.1, 899); }), "1000 tokens, of which 900 are held out");
}

TEST(Lm, PairsAreEncodedOnceAndAnewWhenTheTextChanges) {
  const Folder folder;
  writeFile(folder / "text", "one two one two one two three");
  const Tokenizer tokenizer = Tokenizer::train("one two one two", 262);
  auto open = [&] { return Data::open(folder / "text", tokenizer, folder.string()); };
  Data data = open();
  const auto encoded = tokenizer.encode(readFile(folder / "text"));
  data.split(0, 2);
  EXPECT_EQ(data.trained(), std::int64_t(encoded.size()));
  const auto time = std::filesystem::last_write_time(folder / "tokens.safetensors");
  open();
  EXPECT_EQ(std::filesystem::last_write_time(folder / "tokens.safetensors"), time);
  writeFile(folder / "text", "one two");
  Data changed = open();
  changed.split(0, 1);
  EXPECT_EQ(changed.trained(), std::int64_t(tokenizer.encode("one two").size()));
  EXPECT_SAYS(errorOf([&] { Data::open(folder / "none", tokenizer, folder.string()); }),
              "cannot be read");
}

std::optional<Options> parsed(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"train_lm", "--data=x"});
  int status = -1;
  return parse(int(arguments.size()), arguments.data(), status);
}

TEST(Lm, SizesAreThoseOfTheCourse) {
  const std::pair<const char*, double> sizes[] = {
      {"small", 128.6}, {"medium", 423.2}, {"large", 969.4}, {"xl", 1998}, {"2.7b", 3407}};
  for (auto [name, millions] : sizes) {
    ModelConfig config = ModelConfig::named(name);
    config.vocabulary = 10000;
    config.check();
    EXPECT_NEAR(double(config.parameters()) / 1e6, millions, millions < 1000 ? 0.05 : 0.5) << name;
  }
}

TEST(Lm, OptionsComeFromFlagsAndFiles) {
  const Folder folder;
  writeFile(folder / "c.json", R"({"steps": 77, "precision": "bf16", "recompute": true, "layers": 5,
                                   "learning-rate": 0.25})");
  const std::string file = "--config=" + (folder / "c.json").string();
  const Options options = *parsed({file.c_str(), "--layers=3"});
  EXPECT_EQ(options.steps, 77);
  EXPECT_EQ(options.precision, "bf16");
  EXPECT_EQ(options.learningRate, 0.25);
  EXPECT_TRUE(options.recompute);
  EXPECT_EQ(options.model.layers, 3); // a flag comes first
  EXPECT_EQ(options.model.width, 64); // of the size
  writeFile(folder / "c.json", options.text());
  EXPECT_EQ(parsed({file.c_str()})->text(), options.text());
}

TEST(Lm, BadOptionsAreRefusedWithNumbers) {
  const Folder folder;
  auto says = [](const char* flag) { return errorOf([&] { parsed({flag}); }); };
  EXPECT_SAYS(says("--model=huge"), "--model=huge: allowed are tiny, small");
  EXPECT_SAYS(says("--precision=fp8"), "--precision=fp8: allowed are fp32, tf32, bf16");
  EXPECT_SAYS(says("--batch=0"), "--batch=0: at least 1 is needed");
  EXPECT_SAYS(says("--beta2=1"), "--beta2=1: must lie in 0 to 0.999999");
  EXPECT_SAYS(says("--clip=nan"), "--clip=nan");
  ModelConfig config = ModelConfig::named("tiny");
  config.vocabulary = 256;
  config.heads = 3;
  EXPECT_SAYS(errorOf([&] { config.check(); }), "--width=64 does not divide into --heads=3: 1");
  config.heads = 64;
  EXPECT_SAYS(errorOf([&] { config.check(); }), "heads of 1 elements");
  const std::string file = "--config=" + (folder / "c.json").string();
  auto configSays = [&](const char* content) {
    writeFile(folder / "c.json", content);
    return says(file.c_str());
  };
  EXPECT_SAYS(configSays(R"({"stepz": 1})"), "'stepz' is no option");
  EXPECT_SAYS(configSays(R"({"steps": [1]})"), "'steps' is [1]");
  EXPECT_SAYS(configSays("[1]"), "an object is needed");
  EXPECT_SAYS(configSays("{"), "parse error");
}

TEST(Lm, TheLearningRateWarmsUpAndFollowsACosine) {
  Options options;
  options.steps = 111;
  options.warmup = 10;
  options.learningRate = 1;
  options.minLearningRate = 0.1;
  EXPECT_DOUBLE_EQ(learningRate(options, 0), 0.1);
  EXPECT_DOUBLE_EQ(learningRate(options, 9), 1);
  EXPECT_DOUBLE_EQ(learningRate(options, 10), 1);
  EXPECT_NEAR(learningRate(options, 60), 0.55, 1e-12);
  EXPECT_NEAR(learningRate(options, 110), 0.1, 1e-12);
  EXPECT_NEAR(learningRate(options, 999), 0.1, 1e-12);
}

} // namespace
} // namespace kiln::lm

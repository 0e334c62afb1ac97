// See Run.h.
#include "models/lm/Run.h"

#include "kiln/files.h"
#include "kiln/torch.h"
#include "models/common/Device.h"
#include "models/common/Fail.h"
#include "models/common/Folder.h"
#include "models/lm/Sample.h"
#include "models/lm/Trainer.h"

#include <fstream>
#include <iostream>

namespace kiln::lm {

namespace fs = std::filesystem;

namespace {

std::string contentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    fail(ErrorKind::missing, "--data={} cannot be read", path.string());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

} // namespace

void train(const Options& options) {
  const Tokenizer tokenizer =
      options.tokenizer.empty() ? Tokenizer() : Tokenizer::load(options.tokenizer);
  models::makeFolder(options.out);
  const auto group = startGroup(options.ranks, options.device, options.kiln);
  Trainer trainer(
      options,
      firstThenOthers(*group, [&] { return Data::open(options.data, tokenizer, options.out); }),
      tokenizer, group);
  if (const fs::path from = startOfFirst(*group, options.resume, options.out); !from.empty())
    trainer.resume(from);
  if (group->rank() > 0)
    return trainer.run();
  writeFile(fs::path(options.out) / "config.json", trainer.settings().text() + '\n');
  trainer.run();
  if (options.kiln != "off")
    std::cout << '\n' << kiln::report();
  if (!options.recordShapes.empty())
    kiln::recordShapes(options.recordShapes);
}

std::string makeTokenizer(const Options& options) {
  const std::string text = contentOf(options.data);
  std::error_code notThere;
  if (fs::equivalent(options.data, options.trainTokenizer, notThere))
    fail(ErrorKind::input, "--train-tokenizer={} is the text that --data names; name another file",
         options.trainTokenizer);
  const Tokenizer made = Tokenizer::train(text, options.vocabulary);
  made.save(options.trainTokenizer);
  return fmt::format("{}: {} tokens; {} bytes become {}", options.trainTokenizer, made.vocabulary(),
                     text.size(), made.encode(text).size());
}

std::string write(const Options& options) {
  const Checkpoint from(checkpointOf(options.resume, options.out));
  const at::Device device = deviceOf(options.device);
  Transformer model(from.model());
  from.load(*model);
  model->to(device);
  return sample(model, from.tokenizer(), options, device);
}

} // namespace kiln::lm

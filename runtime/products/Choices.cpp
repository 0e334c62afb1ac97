// See Choices.h.
#include "runtime/products/Choices.h"

#include "kiln/files.h"

#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kiln::runtime {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr const char* kAdded[] = {"nothing", "sum", "row"};

std::string textOf(const Algorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm)
    text += fmt::format("{:016x}", word);
  return text;
}

Algorithm algorithmOf(const std::string& text) {
  constexpr std::size_t digits = 16;
  Algorithm algorithm{};
  if (text.size() != digits * algorithm.size())
    throw Error(ErrorKind::input, fmt::format("an algorithm of {} digits, not 128", text.size()));
  for (std::size_t i = 0; i < algorithm.size(); ++i) {
    const char* const from = text.data() + i * digits;
    if (const auto [end, error] = std::from_chars(from, from + digits, algorithm[i], 16);
        error != std::errc() || end != from + digits)
      throw Error(ErrorKind::input, "an algorithm that is not 128 hexadecimal digits");
  }
  return algorithm;
}

Json jsonOf(const Choice& choice) {
  const Product& p = choice.product;
  Json json = {{"dtype", p.isHalf ? "f16" : "bf16"},
               {"batch", p.batch},
               {"m", p.m},
               {"k", p.k},
               {"n", p.n},
               {"a", p.byColumnsA ? "columns" : "rows"},
               {"b", p.byColumnsB ? "columns" : "rows"},
               {"lda", p.lda},
               {"ldb", p.ldb},
               {"stride_a", p.strideA},
               {"stride_b", p.strideB},
               {"added", kAdded[static_cast<std::size_t>(p.added)]},
               {"default_us", choice.byDefault}};
  if (choice.algorithm) {
    json["us"] = choice.micros;
    json["algorithm"] = textOf(*choice.algorithm);
  }
  return json;
}

/// One of two words.
bool isSecond(const Json& json, const char* name, const char* first, const char* second) {
  const auto word = json.at(name).get<std::string>();
  if (word != first && word != second)
    throw Error(ErrorKind::input,
                fmt::format("\"{}\" is \"{}\", not \"{}\" or \"{}\"", name, word, first, second));
  return word == second;
}

Choice choiceOf(const Json& json) {
  Choice choice;
  Product& p = choice.product;
  p.isHalf = isSecond(json, "dtype", "bf16", "f16");
  p.byColumnsA = isSecond(json, "a", "rows", "columns");
  p.byColumnsB = isSecond(json, "b", "rows", "columns");
  for (const auto& [name, number] : {std::pair("batch", &p.batch),
                                     {"m", &p.m},
                                     {"k", &p.k},
                                     {"n", &p.n},
                                     {"lda", &p.lda},
                                     {"ldb", &p.ldb},
                                     {"stride_a", &p.strideA},
                                     {"stride_b", &p.strideB}}) {
    json.at(name).get_to(*number);
    if (*number < 0)
      throw Error(ErrorKind::input, fmt::format("\"{}\" is {}", name, *number));
  }
  const auto added = json.at("added").get<std::string>();
  const auto* const found = std::ranges::find(kAdded, added);
  if (found == std::end(kAdded))
    throw Error(ErrorKind::input,
                fmt::format("\"added\" is \"{}\", not \"nothing\", \"sum\" or \"row\"", added));
  p.added = static_cast<Added>(found - std::begin(kAdded));
  choice.byDefault = json.at("default_us").get<double>();
  if (json.contains("algorithm")) {
    choice.micros = json.at("us").get<double>();
    choice.algorithm = algorithmOf(json.at("algorithm").get<std::string>());
  }
  return choice;
}

} // namespace

Choices Choices::read(const std::filesystem::path& file) {
  const std::string text = readFile(file);
  std::string why;
  try {
    const Json json = Json::parse(text);
    if (!json.contains("kiln_products"))
      throw Error(ErrorKind::input, "it is no JSON object with \"kiln_products\"");
    if (const int format = json.at("kiln_products").get<int>(); format != kFormat)
      throw Error(ErrorKind::input,
                  fmt::format("it has format {}, this build reads {}", format, kFormat));
    Choices choices{json.at("device").get<std::string>(), json.at("cublaslt").get<std::uint64_t>()};
    for (const Json& one : json.at("products"))
      choices.products.push_back(choiceOf(one));
    return choices;
  } catch (const nlohmann::json::exception& error) {
    why = error.what();
  } catch (const Error& error) {
    why = error.what();
  }
  throw Error(ErrorKind::input,
              fmt::format("{} has no choices for products: {}; name one that was written with "
                          "tune_products=1, or a new name",
                          file.string(), why));
}

Choices Choices::of(const Options& options) {
  if (std::filesystem::exists(options.products))
    return read(options.products);
  if (!options.tuneProducts)
    throw Error(ErrorKind::io,
                fmt::format("products={}: there is no such file; tune_products=1 writes one",
                            options.products.string()));
  return {};
}

void Choices::write(const std::filesystem::path& file) const {
  Json json = {{"kiln_products", kFormat}, {"device", device}, {"cublaslt", cublasLt}};
  json["products"] = Json::array();
  for (const Choice& choice : products)
    json["products"].push_back(jsonOf(choice));
  writeFile(file, json.dump(1) + "\n");
}

} // namespace kiln::runtime

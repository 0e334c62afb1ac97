// The launch plan from JSON. Reading is strict (unknown keys, names and numbers out of range are
// refused with the place in the document), because people edit the text.
#include "codegen/backend/CheckLaunchPlan.h"
#include "codegen/backend/Fail.h"
#include "codegen/backend/LaunchPlanNames.h"
#include "codegen/backend/Symbols.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <limits>

namespace kiln {

namespace {

using Json = nlohmann::ordered_json;
using Kind = KernelArgument::Kind;
using Grid = KernelLaunch::Grid;

constexpr std::int64_t maxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t maxInt64 = std::numeric_limits<std::int64_t>::max();

/// One object of the document with its place; remembers which keys exist.
class Reader {
 public:
  Reader(const Json& json, std::string place, std::initializer_list<std::string_view> keys)
      : json(json), place(std::move(place)) {
    if (!json.is_object())
      fail(ErrorKind::input, "launch plan: {} is not an object", this->place);
    for (const auto& item : json.items())
      if (std::find(keys.begin(), keys.end(), item.key()) == keys.end())
        fail(ErrorKind::input, "launch plan: {} has the unknown key '{}'; allowed are {}",
             this->place, item.key(), fmt::join(keys, ", "));
  }

  const Json* find(const char* key) const {
    auto it = json.find(key);
    return it == json.end() ? nullptr : &*it;
  }

  const Json& get(const char* key) const {
    if (const Json* value = find(key))
      return *value;
    fail(ErrorKind::input, "launch plan: {} lacks the key '{}'", place, key);
  }

  std::string at(const char* key) const { return fmt::format("{}.{}", place, key); }

  std::string text(const char* key) const {
    const Json& value = get(key);
    if (!value.is_string())
      fail(ErrorKind::input, "launch plan: {} is not a string", at(key));
    auto text = value.get<std::string>();
    if (std::string shown = printable(text); shown != text)
      fail(ErrorKind::input,
           "launch plan: {} is '{}'; texts have no control characters, ends of lines or changes of "
           "the direction of writing",
           at(key), shown);
    return text;
  }

  bool flag(const char* key, bool fallback) const {
    const Json* value = find(key);
    if (value && !value->is_boolean())
      fail(ErrorKind::input, "launch plan: {} is not true or false", at(key));
    return value ? value->get<bool>() : fallback;
  }

  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high) const {
    return integerOf(get(key), at(key), low, high);
  }
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high,
                       std::int64_t fallback) const {
    return find(key) ? integer(key, low, high) : fallback;
  }

  double number(const char* key) const {
    const Json& value = get(key);
    if (!value.is_number())
      fail(ErrorKind::input, "launch plan: {} is not a number", at(key));
    return value.get<double>();
  }

  const Json& array(const char* key) const {
    const Json& value = get(key);
    if (!value.is_array())
      fail(ErrorKind::input, "launch plan: {} is not an array", at(key));
    return value;
  }

  std::string element(const char* key, std::size_t index) const {
    return fmt::format("{}.{}[{}]", place, key, index);
  }

  template <typename Table> auto choice(const char* key, const Table& table) const {
    std::string value = text(key);
    std::vector<std::string_view> known;
    for (const auto& [result, text] : table) {
      if (text == value)
        return result;
      known.push_back(text);
    }
    fail(ErrorKind::input, "launch plan: {} is '{}'; allowed are {}", at(key), value,
         fmt::join(known, ", "));
  }

  static std::int64_t integerOf(const Json& value, const std::string& place, std::int64_t low,
                                std::int64_t high) {
    bool fits = value.is_number_integer() &&
                !(value.is_number_unsigned() &&
                  value.get<std::uint64_t>() > static_cast<std::uint64_t>(maxInt64));
    std::int64_t number = fits ? value.get<std::int64_t>() : 0;
    if (!fits || number < low || number > high)
      fail(ErrorKind::input, "launch plan: {} is {}; allowed are whole numbers from {} to {}",
           place, value.dump(-1, ' ', true, Json::error_handler_t::replace), low, high);
    return number;
  }

 private:
  const Json& json;
  std::string place;
};

Extent readExtent(const Json& json, const std::string& place) {
  if (!json.is_string())
    return {Reader::integerOf(json, place, 0, maxInt64), -1};
  std::string text = json.get<std::string>();
  int symbol = -1;
  if (text.size() > 1 && text[0] == 's') {
    auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), symbol);
    if (error != std::errc() || end != text.data() + text.size())
      symbol = -1;
  }
  if (symbol < 0 || symbol >= maxSymbols)
    fail(ErrorKind::input,
         "launch plan: {} is '{}'; allowed are a size or a run-time size \"s0\" to \"s{}\"", place,
         text, maxSymbols - 1);
  return {0, symbol};
}

std::vector<Extent> readExtents(const Json& array, const std::string& place) {
  if (!array.is_array())
    fail(ErrorKind::input, "launch plan: {} is not an array", place);
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < array.size(); ++i)
    extents.push_back(readExtent(array[i], fmt::format("{}[{}]", place, i)));
  return extents;
}
std::vector<Extent> readExtents(const Reader& reader, const char* key) {
  return readExtents(reader.get(key), reader.at(key));
}

TensorInfo readTensor(const Json& json, const std::string& place) {
  Reader reader(json, place,
                {"name", "dtype", "shape", "strides", "alignment", "older", "nonNegative", "lowest",
                 "ascendsTo", "part", "strideMultiple"});
  TensorInfo tensor;
  tensor.name = reader.text("name");
  tensor.dtype = parseDType(reader.text("dtype"));
  tensor.shape = readExtents(reader, "shape");
  const Json& strides = reader.array("strides");
  for (std::size_t i = 0; i < strides.size(); ++i)
    tensor.strides.push_back(
        Reader::integerOf(strides[i], reader.element("strides", i), -1, maxInt64));
  if (!tensor.strides.empty() && tensor.strides.size() != tensor.shape.size())
    fail(ErrorKind::input, "launch plan: {} has {} strides for {} dimensions; give one each or []",
         place, tensor.strides.size(), tensor.shape.size());
  tensor.alignment = reader.integer("alignment", 1, 1 << 20, 16);
  if ((tensor.alignment & (tensor.alignment - 1)) != 0)
    fail(ErrorKind::input, "launch plan: {}.alignment is {}; allowed are powers of two", place,
         tensor.alignment);
  tensor.older = reader.flag("older", false);
  if (reader.flag("nonNegative", false)) // in older stores
    tensor.lowest = 0.0;
  if (reader.find("lowest"))
    tensor.lowest = reader.number("lowest");
  if (reader.find("ascendsTo"))
    tensor.ascendsTo = readExtent(reader.get("ascendsTo"), reader.at("ascendsTo"));
  tensor.part = static_cast<int>(reader.integer("part", 0, maxSymbols / 2 - 1, 0));
  tensor.strideMultiple = reader.integer("strideMultiple", 1, maxInt64, 1);
  return tensor;
}

WorkspaceInfo readWorkspace(const Json& json, const std::string& place) {
  Reader reader(json, place, {"name", "dtype", "elements", "blocksOf", "sizes"});
  WorkspaceInfo workspace{reader.text("name"),
                          parseDType(reader.text("dtype")),
                          reader.integer("elements", 0, maxInt64),
                          static_cast<int>(reader.integer("blocksOf", -1, maxInt32)),
                          {}};
  if (reader.find("sizes"))
    workspace.sizes.factors = readExtents(reader, "sizes");
  return workspace;
}

KernelArgument readArgument(const Json& json, const std::string& place) {
  Reader reader(json, place, {"kind", "name", "dimension", "product", "kernel", "parts", "map"});
  KernelArgument argument;
  argument.kind = reader.choice("kind", kindNames);
  bool named = argument.kind == Kind::buffer || argument.kind == Kind::stride ||
               argument.kind == Kind::tensorMap;
  if (named || reader.find("name"))
    argument.name = reader.text("name");
  if (argument.kind == Kind::stride)
    argument.dimension = static_cast<int>(reader.integer("dimension", 0, maxInt32));
  if (argument.kind == Kind::rows || argument.kind == Kind::size)
    argument.product.factors = readExtents(reader, "product");
  if (argument.kind == Kind::blocks) {
    argument.kernel = static_cast<int>(reader.integer("kernel", 0, maxInt32));
    argument.parts = static_cast<int>(reader.integer("parts", 0, maxInt32, 0));
  }
  if (argument.kind == Kind::tensorMap)
    argument.map = static_cast<int>(reader.integer("map", 0, maxInt32));
  return argument;
}

TileCount readTileCount(const Json& json, const std::string& place) {
  Reader reader(json, place, {"product", "tile"});
  return {{readExtents(reader, "product")}, reader.integer("tile", 1, maxInt64, 1)};
}

WarpRole readRole(const Json& json, const std::string& place) {
  Reader reader(json, place, {"warps", "registers"});
  return {static_cast<int>(reader.integer("warps", 1, 32)),
          static_cast<int>(reader.integer("registers", 24, 256))};
}

TensorMapDimension readMapDimension(const Json& json, const std::string& place) {
  Reader reader(json, place, {"size", "stride", "strideOf", "box"});
  TensorMapDimension dimension;
  dimension.size.factors = readExtents(reader, "size");
  if (reader.find("stride"))
    dimension.stride.factors = readExtents(reader, "stride");
  dimension.strideOf = static_cast<int>(reader.integer("strideOf", -1, maxInt32, -1));
  dimension.box = reader.integer("box", 1, maxInt32);
  return dimension;
}

template <typename T, typename Read>
std::vector<T> readAll(const Reader& reader, const char* key, Read read) {
  std::vector<T> values;
  const Json& array = reader.array(key);
  for (std::size_t i = 0; i < array.size(); ++i)
    values.push_back(read(array[i], reader.element(key, i)));
  return values;
}

TensorMapInfo readTensorMap(const Json& json, const std::string& place) {
  Reader reader(json, place, {"dtype", "swizzle", "promotion", "dimensions"});
  TensorMapInfo map;
  map.dtype = parseDType(reader.text("dtype"));
  map.swizzle = static_cast<int>(reader.integer("swizzle", 0, 128, 0));
  map.promotion = static_cast<int>(reader.integer("promotion", 0, 256, 0));
  map.dimensions = readAll<TensorMapDimension>(reader, "dimensions", readMapDimension);
  return map;
}

/// Each of up to three dimensions is an array of counts.
std::vector<std::vector<TileCount>> readTiles(const Reader& reader) {
  std::vector<std::vector<TileCount>> tiles;
  const Json& dimensions = reader.array("tiles");
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    const std::string place = reader.element("tiles", d);
    if (!dimensions[d].is_array())
      fail(ErrorKind::input, "launch plan: {} is not an array", place);
    tiles.emplace_back();
    for (std::size_t i = 0; i < dimensions[d].size(); ++i)
      tiles.back().push_back(readTileCount(dimensions[d][i], fmt::format("{}[{}]", place, i)));
  }
  return tiles;
}

/// How the blocks of a kernel are counted.
void readGrid(const Reader& reader, const std::string& place, KernelLaunch& kernel) {
  kernel.grid = reader.choice("grid", gridNames);
  const bool tiles = kernel.grid == Grid::tiles;
  for (const char* key : {"rowsPerBlock", "rows", "further", "tiles"})
    if (reader.find(key) && tiles != (std::string_view(key) == "tiles"))
      fail(ErrorKind::input, "launch plan: {} has a {} grid, which takes no key '{}'", place,
           nameIn(gridNames, kernel.grid), key);
  kernel.rowsPerBlock = reader.integer("rowsPerBlock", 1, maxInt64, 1);
  bool needsBlocks = kernel.grid == Grid::resident || kernel.grid == Grid::fixed;
  kernel.blocks = reader.integer("blocks", needsBlocks ? 1 : 0, maxInt32, 0);
  if (needsBlocks && kernel.blocks == 0)
    fail(ErrorKind::input, "launch plan: {} has a {} grid and lacks the key 'blocks'", place,
         nameIn(gridNames, kernel.grid));
  kernel.blocksMultiple = reader.integer("blocksMultiple", 1, 1 << 20, 1);
  if (kernel.blocksMultiple != 1 && kernel.grid != Grid::resident)
    fail(
        ErrorKind::input,
        "launch plan: {}.blocksMultiple is {}, which only a resident grid can heed; its grid is {}",
        place, kernel.blocksMultiple, nameIn(gridNames, kernel.grid));
  if (kernel.grid == Grid::fixed && kernel.blocks % kernel.cluster != 0)
    fail(ErrorKind::input, "launch plan: {}.blocks is {}, not a multiple of its cluster of {}",
         place, kernel.blocks, kernel.cluster);
  if (tiles)
    kernel.tiles = readTiles(reader);
  else if (reader.find("rows") || kernel.grid != Grid::fixed)
    kernel.rows.factors = readExtents(reader, "rows");
  if (reader.find("further"))
    kernel.further = readAll<SizeProduct>(reader, "further", [](const Json& json, const auto& at) {
      return SizeProduct{readExtents(json, at)};
    });
  const bool mayHaveParts = kernel.grid == Grid::oneShot || kernel.grid == Grid::resident;
  if (!kernel.further.empty() && (!mayHaveParts || kernel.cluster != 1))
    fail(ErrorKind::input,
         "launch plan: {} has {} further parts, a {} grid and clusters of {}; parts need a oneShot "
         "or resident grid and clusters of 1",
         place, kernel.further.size(), nameIn(gridNames, kernel.grid), kernel.cluster);
}

KernelLaunch readKernel(const Json& json, const std::string& place) {
  Reader reader(json, place,
                {"name", "family", "schedule", "threads", "sharedBytes", "promisedBlocks",
                 "programmatic", "cluster", "grid", "rowsPerBlock", "blocks", "rows", "arguments",
                 "further", "tiles", "tensorMaps", "roles", "blocksMultiple", "multiplyAdds"});
  KernelLaunch kernel;
  kernel.name = reader.text("name");
  kernel.family = reader.find("family") ? reader.text("family") : "";
  kernel.schedule = reader.find("schedule") ? reader.text("schedule") : "";
  kernel.threads = static_cast<int>(reader.integer("threads", 1, 1024));
  kernel.sharedBytes = reader.integer("sharedBytes", 0, 1 << 20, 0);
  kernel.promisedBlocks = static_cast<int>(reader.integer("promisedBlocks", 0, 32, 0));
  kernel.programmatic = reader.flag("programmatic", false);
  kernel.cluster = static_cast<int>(reader.integer("cluster", 1, 16, 1));
  readGrid(reader, place, kernel);
  kernel.arguments = readAll<KernelArgument>(reader, "arguments", readArgument);
  if (reader.find("tensorMaps"))
    kernel.tensorMaps = readAll<TensorMapInfo>(reader, "tensorMaps", readTensorMap);
  if (reader.find("roles"))
    kernel.roles = readAll<WarpRole>(reader, "roles", readRole);
  if (reader.find("multiplyAdds"))
    kernel.multiplyAdds.factors = readExtents(reader, "multiplyAdds");
  return kernel;
}

ListsInfo readLists(const Json& json) {
  Reader reader(json, "plan.lists", {"chunk", "inputs", "outputs", "counts"});
  return {reader.integer("chunk", 1, maxInt32), readAll<TensorInfo>(reader, "inputs", readTensor),
          readAll<TensorInfo>(reader, "outputs", readTensor), reader.flag("counts", false)};
}

} // namespace

LaunchPlan parseLaunchPlan(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text, [](int depth, Json::parse_event_t, const Json&) {
      constexpr int most = 32; // what works on it recurses
      if (depth > most)
        fail(ErrorKind::input, "launch plan: its arrays are nested more than {} deep", most);
      return true;
    });
  } catch (const Json::exception& error) {
    fail(ErrorKind::input, "launch plan: not valid JSON: {}", error.what());
  }
  Reader reader(json, "plan", {"function", "inputs", "outputs", "workspaces", "kernels", "lists"});
  LaunchPlan plan;
  plan.function = reader.text("function");
  plan.inputs = readAll<TensorInfo>(reader, "inputs", readTensor);
  plan.outputs = readAll<TensorInfo>(reader, "outputs", readTensor);
  plan.workspaces = readAll<WorkspaceInfo>(reader, "workspaces", readWorkspace);
  plan.kernels = readAll<KernelLaunch>(reader, "kernels", readKernel);
  if (const Json* lists = reader.find("lists"))
    plan.lists = readLists(*lists);
  checkLaunchPlan(plan);
  return plan;
}

LaunchPlan launchPlanOfCuda(std::string_view cuda) {
  constexpr std::string_view marker = "// kiln.launch {"; // no other comment begins so
  std::string_view found;
  int count = 0;
  while (!cuda.empty()) {
    std::size_t end = cuda.find('\n');
    std::string_view line = cuda.substr(0, end);
    cuda.remove_prefix(end == std::string_view::npos ? cuda.size() : end + 1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.substr(0, marker.size()) != marker)
      continue;
    found = line.substr(marker.size() - 1);
    ++count;
  }
  if (count != 1)
    fail(ErrorKind::input,
         "the CUDA text has {} lines '// kiln.launch {{...}}'; it needs exactly one, as written by "
         "kernel-compile --save-temps=DIR",
         count);
  return parseLaunchPlan(found);
}

} // namespace kiln

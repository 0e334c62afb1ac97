// The launch plan as JSON. A size is written as a number, a run-time size as "s0", "s1", ...
#include "codegen/backend/LaunchPlanNames.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kiln {

namespace {

using Json = nlohmann::ordered_json;
using Kind = KernelArgument::Kind;

Json write(const Extent& extent) {
  return extent.isStatic() ? Json(extent.size) : Json(fmt::format("s{}", extent.symbol));
}

Json write(const std::vector<Extent>& extents) {
  Json array = Json::array();
  for (const Extent& extent : extents)
    array.push_back(write(extent));
  return array;
}

Json write(const TensorInfo& tensor) {
  Json json = {{"name", tensor.name},
               {"dtype", name(tensor.dtype)},
               {"shape", write(tensor.shape)},
               {"strides", tensor.strides},
               {"alignment", tensor.alignment}};
  if (tensor.older)
    json["older"] = true;
  if (tensor.lowest)
    json["lowest"] = *tensor.lowest;
  if (tensor.ascendsTo)
    json["ascendsTo"] = write(*tensor.ascendsTo);
  if (tensor.part > 0)
    json["part"] = tensor.part;
  if (tensor.strideMultiple != 1)
    json["strideMultiple"] = tensor.strideMultiple;
  return json;
}

Json write(const WorkspaceInfo& workspace) {
  return {{"name", workspace.name},
          {"dtype", name(workspace.dtype)},
          {"elements", workspace.elements},
          {"blocksOf", workspace.blocksOf},
          {"sizes", write(workspace.sizes.factors)}};
}

Json write(const KernelArgument& argument) {
  Json json = {{"kind", nameIn(kindNames, argument.kind)}};
  if (argument.kind != Kind::blocks && !argument.name.empty())
    json["name"] = argument.name;
  if (argument.kind == Kind::stride)
    json["dimension"] = argument.dimension;
  if (argument.kind == Kind::rows || argument.kind == Kind::size)
    json["product"] = write(argument.product.factors);
  if (argument.kind == Kind::blocks)
    json["kernel"] = argument.kernel;
  if (argument.parts > 0)
    json["parts"] = argument.parts;
  if (argument.kind == Kind::tensorMap)
    json["map"] = argument.map;
  return json;
}

Json write(const TileCount& count) {
  return {{"product", write(count.product.factors)}, {"tile", count.tile}};
}

Json write(const WarpRole& role) {
  return {{"warps", role.warps}, {"registers", role.registers}};
}

Json write(const TensorMapDimension& dimension) {
  Json json = {{"size", write(dimension.size.factors)},
               {"stride", write(dimension.stride.factors)},
               {"box", dimension.box}};
  if (dimension.strideOf >= 0)
    json["strideOf"] = dimension.strideOf;
  return json;
}

Json write(const TensorMapInfo& map);
Json write(const KernelLaunch& kernel);

template <typename T> Json writeAll(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values)
    array.push_back(write(value));
  return array;
}

Json write(const TensorMapInfo& map) {
  return {{"dtype", name(map.dtype)},
          {"swizzle", map.swizzle},
          {"promotion", map.promotion},
          {"dimensions", writeAll(map.dimensions)}};
}

Json write(const KernelLaunch& kernel) {
  Json json = {{"name", kernel.name},
               {"schedule", kernel.schedule},
               {"threads", kernel.threads},
               {"sharedBytes", kernel.sharedBytes},
               {"promisedBlocks", kernel.promisedBlocks},
               {"programmatic", kernel.programmatic},
               {"cluster", kernel.cluster},
               {"grid", nameIn(gridNames, kernel.grid)}};
  if (kernel.grid != KernelLaunch::Grid::tiles)
    json["rowsPerBlock"] = kernel.rowsPerBlock;
  json["blocks"] = kernel.blocks;
  if (kernel.grid != KernelLaunch::Grid::tiles)
    json["rows"] = write(kernel.rows.factors);
  for (const std::vector<TileCount>& dimension : kernel.tiles)
    json["tiles"].push_back(writeAll(dimension));
  json["arguments"] = writeAll(kernel.arguments);
  if (kernel.blocksMultiple != 1)
    json["blocksMultiple"] = kernel.blocksMultiple;
  if (!kernel.family.empty())
    json["family"] = kernel.family;
  for (const SizeProduct& rows : kernel.further)
    json["further"].push_back(write(rows.factors));
  if (!kernel.tensorMaps.empty())
    json["tensorMaps"] = writeAll(kernel.tensorMaps);
  if (!kernel.roles.empty())
    json["roles"] = writeAll(kernel.roles);
  if (!kernel.multiplyAdds.factors.empty())
    json["multiplyAdds"] = write(kernel.multiplyAdds.factors);
  return json;
}

} // namespace

std::string toJson(const LaunchPlan& plan) {
  Json json = {{"function", plan.function},
               {"inputs", writeAll(plan.inputs)},
               {"outputs", writeAll(plan.outputs)},
               {"workspaces", writeAll(plan.workspaces)},
               {"kernels", writeAll(plan.kernels)}};
  if (plan.lists.chunk > 0)
    json["lists"] = {{"chunk", plan.lists.chunk},
                     {"inputs", writeAll(plan.lists.inputs)},
                     {"outputs", writeAll(plan.lists.outputs)}};
  if (plan.lists.counts)
    json["lists"]["counts"] = true;
  // Names that are not UTF-8 must not stop the compiler; they come back with a marker.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace kiln

// What kernels use, for people and for programs; see Kernels.h.
#include "tools/kernel-compile/Kernels.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln::tool {

std::string shortSchedule(const std::string& text) {
  if (auto kernels = std::ranges::count(text, '<'); kernels > 1)
    return fmt::format("of {} kernels", kernels);
  std::size_t begin = text.find('<');
  std::size_t end = text.rfind('>');
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    return text.empty() ? "-" : text;
  return text.substr(begin + 1, end - begin - 1);
}

namespace {

std::string spills(const Usage& usage) {
  bool known = usage.spillStoreBytes >= 0 && usage.spillLoadBytes >= 0;
  return known ? grouped(usage.spillStoreBytes + usage.spillLoadBytes) : "-";
}

} // namespace

Table usageTable(const std::vector<std::string>& leading,
                 const std::vector<std::string>& trailing) {
  Table table;
  for (const std::string& title : leading)
    table.column(title, Table::Align::left);
  table.column("kernel", Table::Align::left);
  for (const char* title : {"threads", "registers", "shared B", "stack B", "spills B", "barriers",
                            "blocks/SM", "code B"})
    table.column(title);
  for (const std::string& title : trailing)
    table.column(title);
  table.column("schedule", Table::Align::left);
  return table;
}

std::vector<std::string> usageCells(const KernelInfo& kernel) {
  const Usage& usage = kernel.usage;
  return {kernel.name,
          grouped(kernel.threads),
          grouped(usage.registers),
          grouped(usage.sharedBytes),
          grouped(usage.stackBytes),
          spills(usage),
          grouped(usage.barriers),
          grouped(kernel.residentBlocks),
          grouped(usage.codeBytes),
          shortSchedule(kernel.schedule)};
}

nlohmann::ordered_json toJson(const KernelInfo& kernel) {
  const Usage& usage = kernel.usage;
  return {{"name", kernel.name},
          {"schedule", kernel.schedule},
          {"threads", kernel.threads},
          {"promised_blocks", kernel.promisedBlocks},
          {"resident_blocks", kernel.residentBlocks},
          {"programmatic", kernel.programmatic},
          {"registers", usage.registers},
          {"shared_bytes", usage.sharedBytes},
          {"stack_bytes", usage.stackBytes},
          {"spill_store_bytes", usage.spillStoreBytes},
          {"spill_load_bytes", usage.spillLoadBytes},
          {"barriers", usage.barriers},
          {"code_bytes", usage.codeBytes}};
}

nlohmann::ordered_json toJson(const TensorInfo& tensor) {
  std::vector<std::string> shape;
  for (const Extent& extent : tensor.shape)
    shape.push_back(extent.isStatic() ? std::to_string(extent.size)
                                      : fmt::format("s{}", extent.symbol));
  return {{"name", tensor.name},
          {"dtype", name(tensor.dtype)},
          {"shape", shape},
          {"alignment", tensor.alignment}};
}

} // namespace kiln::tool

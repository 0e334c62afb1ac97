// Named tensors in a file of the safetensors layout: eight bytes that tell the length of a JSON
// header, the header (name -> dtype, shape, offsets; "__metadata__" -> texts), and the elements.
// A file is there whole or not at all: it is written beside its place, synchronised and renamed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kiln::models {

using Metadata = std::map<std::string, std::string>;

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Tensors of any device and layout. Throws Error(io), and Error(input) for a dtype that the format
/// does not know.
void writeSafetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const Metadata& metadata);

/// A file of this layout, mapped into memory.
class Safetensors {
 public:
  /// Throws Error(missing), and Error(corrupt) with the numbers that do not fit.
  explicit Safetensors(const std::filesystem::path& path);

  const Metadata& metadata() const { return texts; }
  /// Throws Error(corrupt) if there is none.
  const std::string& text(const std::string& key) const;
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return entries.contains(name); }

  /// A tensor of the mapped file; not to be written to. Throws Error(corrupt) if there is none.
  at::Tensor tensor(const std::string& name) const;
  /// Into a tensor that must have the same dtype and shape. Throws Error(corrupt).
  void read(const std::string& name, at::Tensor& into) const;

 private:
  struct Entry {
    at::ScalarType dtype;
    std::vector<std::int64_t> shape;
    std::int64_t begin, end; // bytes
  };
  void parse(const std::string& header);
  Entry parseEntry(const std::string& name, const auto& json) const;

  std::filesystem::path path;
  at::Tensor bytes; // behind the header
  std::map<std::string, Entry> entries;
  Metadata texts;
};

} // namespace kiln::models

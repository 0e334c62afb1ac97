// Where a choice comes from: several stores, asked in order, one of which is written. The last
// answer, the cost model's, needs no store and is not here.
#pragma once

#include "autotune/store/Store.h"
#include "kiln/tuner.h"

namespace kiln::autotune {

struct Found {
  Choice choice;
  Key key; // under which it is stored
  std::string layer;
  std::shared_ptr<const Store> store;
};

/// Why there is none: the first field in which the nearest key differs.
struct Miss {
  std::string field;  // empty: no store holds any choice; "cubin": it is there, but cannot be used
  std::string wanted; // its value
  std::string nearest;
  std::string label; // of the nearest key
};
std::string toText(const Miss& miss);

class Layers {
 public:
  /// What is damaged or too new is left out, and said in `warnings`. The project's layer is the one
  /// that is written if there is one, else the user's.
  enum class Use {
    write,
    read,    // none is written
    readNow, // and what others write later is not seen
  };
  Layers(const TunerLayers& files, Use use, std::vector<std::string>& warnings);

  /// What each layer has, in their order. `anyCompiler`: a program that never compiles takes what
  /// any version of NVRTC made, the newest of a layer, behind what was made by its own.
  std::vector<Found> find(const Key& key, bool anyCompiler = false) const;
  /// What was measured, pinned or left to the vendor of the same function at other run-time sizes,
  /// each from half to twice the one here: the nearest first, by halvings and doublings summed,
  /// then by the order of the layers. Any version of NVRTC counts.
  std::vector<Found> near(const Key& key) const;
  Miss explainMiss(const Key& key) const;
  /// By key, what this version of Kiln finds first of what was measured, pinned or left to the
  /// vendor. What the cost model chose is the same wherever it is asked.
  std::map<std::string, Choice> chosen() const;
  /// By name, in the order in which they are asked.
  const std::vector<std::pair<std::string, std::shared_ptr<Store>>>& all() const { return layers; }
  Store* writer() const { return writing; }

 private:
  void add(const char* name, const std::filesystem::path& path, Store::Access access,
           std::vector<std::string>& warnings);
  bool isCopied;
  std::vector<std::pair<std::string, std::shared_ptr<Store>>> layers;
  Store* writing = nullptr;
};

} // namespace kiln::autotune

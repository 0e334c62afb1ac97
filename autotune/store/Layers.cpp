// See Layers.h.
#include "autotune/store/Layers.h"

#include "autotune/Key.h"
#include "autotune/store/FileSystem.h"
#include "codegen/backend/Fail.h"

#include <cstdlib>
#include <dlfcn.h>

namespace kiln::autotune {

namespace {

constexpr const char* kSystem = "system";

std::filesystem::path fromEnvironment(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

std::filesystem::path userStore() {
  std::filesystem::path cache = fromEnvironment("XDG_CACHE_HOME");
  if (cache.empty()) {
    std::filesystem::path home = fromEnvironment("HOME");
    if (home.empty())
      return {};
    cache = home / ".cache";
  }
  return cache / "kiln" / "store";
}

/// <prefix>/share/kiln/store, for a library in <prefix>/lib or deeper.
std::filesystem::path systemStore() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&systemStore), &info) == 0 || !info.dli_fname)
    return {};
  std::filesystem::path folder = std::filesystem::path(info.dli_fname).parent_path();
  for (int up = 0; up < 2 && folder.has_relative_path(); ++up) {
    folder = folder.parent_path();
    std::error_code ignored;
    if (auto path = folder / "share" / "kiln" / "store"; std::filesystem::exists(path, ignored))
      return path;
  }
  return {};
}

/// How near a key is: fields that agree from the first on, then all that agree.
std::pair<int, int> nearness(const Key& wanted, const Key& other) {
  auto a = fields(wanted), b = fields(other);
  int prefix = 0, equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    bool agrees = a[i].second == b[i].second;
    equal += agrees;
    prefix += agrees && prefix == static_cast<int>(i);
  }
  return {prefix, equal};
}

} // namespace

} // namespace kiln::autotune

kiln::TunerLayers kiln::TunerLayers::standard() {
  using namespace autotune;
  TunerLayers files;
  files.pinned = fromEnvironment("KILN_PINNED");
  files.project = fromEnvironment("KILN_STORE");
  std::error_code ignored;
  if (files.project.empty() && std::filesystem::exists(".kiln/store", ignored))
    files.project = ".kiln/store";
  files.user = userStore();
  files.system = systemStore();
  return files;
}

namespace kiln::autotune {

void Layers::add(const char* name, const std::filesystem::path& path, Store::Access access,
                 std::vector<std::string>& warnings) {
  std::error_code ignored;
  bool writes = access == Store::Access::write;
  if (path.empty() || (!writes && !std::filesystem::exists(path, ignored)))
    return;
  try {
    if (!writes) {
      if (std::string others = whoElseMayWrite(path); !others.empty() && name == kSystem)
        fail(ErrorKind::input, "{}", others); // nobody asked for it by name
      else if (!others.empty())
        warnings.push_back(std::move(others));
      const bool changes = isCopied && access == Store::Access::read;
      layers.emplace_back(name, changes ? Store::copyOf(path) : Store::open(path, access));
      return;
    }
    std::shared_ptr<Store> store = Store::openOrReplace(path, warnings);
    writing = store.get();
    bool lasts = store->lasts();
    layers.emplace_back(name, std::move(store));
    if (!lasts) // what lies there can still be read
      add(name, path, Store::Access::read, warnings);
  } catch (const Error& error) {
    warnings.push_back(fmt::format("the {} layer is left out: {}", name, error.what()));
  }
}

Layers::Layers(const TunerLayers& files, Use use, std::vector<std::string>& warnings)
    : isCopied(use == Use::readNow) {
  using Access = Store::Access;
  bool project = !files.project.empty(), writable = use == Use::write;
  add("pinned", files.pinned, Access::immutable, warnings);
  add("project", files.project, writable ? Access::write : Access::read, warnings);
  add("user", files.user, writable && !project ? Access::write : Access::read, warnings);
  add(kSystem, files.system, Access::immutable, warnings);
}

std::vector<Found> Layers::find(const Key& key, bool anyCompiler) const {
  std::vector<Found> all;
  for (const auto& [name, store] : layers)
    if (auto choice = store->choice(key))
      all.push_back({*choice, key, name, store});
  if (!anyCompiler)
    return all;
  for (const auto& [name, store] : layers) {
    const KnownKey* newest = nullptr;
    std::vector<KnownKey> keys = store->keys();
    for (const KnownKey& known : keys) {
      Key same = known.key;
      same.nvrtc = key.nvrtc;
      if (same == key && known.key.nvrtc != key.nvrtc &&
          (!newest || newest->key.nvrtc < known.key.nvrtc))
        newest = &known;
    }
    if (newest)
      if (auto choice = store->choice(newest->key))
        all.push_back({*choice, newest->key, name, store});
  }
  return all;
}

std::map<std::string, Choice> Layers::chosen() const {
  std::map<std::string, Choice> all;
  for (const auto& [name, store] : layers)
    for (const KnownKey& known : store->keys())
      if (known.key.emitter == emitterHash())
        if (auto choice = store->choice(known.key); choice && choice->source != Source::model)
          all.try_emplace(known.digest, std::move(*choice));
  return all;
}

Miss Layers::explainMiss(const Key& key) const {
  std::optional<KnownKey> nearest;
  for (const auto& [name, store] : layers)
    for (KnownKey& known : store->keys())
      if (!nearest || nearness(key, known.key) > nearness(key, nearest->key))
        nearest = std::move(known);
  if (!nearest)
    return {};
  auto wanted = fields(key), has = fields(nearest->key);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i].second != has[i].second)
      return {std::string(wanted[i].first), wanted[i].second, has[i].second, nearest->label};
  return {"cubin", "", "", nearest->label}; // the very key
}

std::string toText(const Miss& miss) {
  if (miss.field.empty())
    return "no store holds a choice";
  if (miss.wanted == miss.nearest)
    return "its choice has no cubin that can be used";
  return fmt::format("{} is '{}', the nearest choice{} has '{}'", miss.field, miss.wanted,
                     miss.label.empty() ? "" : " (" + miss.label + ")", miss.nearest);
}

} // namespace kiln::autotune

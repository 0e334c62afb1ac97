// What a key is made of, and the name that it has everywhere.
#include "autotune/Records.h"

#include "autotune/store/Names.h"
#include "autotune/store/Sha256.h"

namespace kiln::autotune {

std::vector<std::pair<std::string_view, std::string>> fields(const Key& key) {
  return {{"function", key.function},
          {"tensors", key.tensors},
          {"regime", std::string(nameIn(regimeNames, key.regime))},
          {"arch", key.arch},
          {"device", key.device},
          {"nvrtc", key.nvrtc},
          {"flags", key.flags},
          {"emitter", key.emitter},
          {"space", key.space}};
}

std::string digest(const Key& key) {
  std::string all;
  for (const auto& [name, value] : fields(key))
    all += std::string(name) + '\0' + value + '\0';
  return sha256(all);
}

bool hasOpenSizes(const Key& key) {
  return key.tensors.find('?') != std::string::npos &&
         key.tensors.find("[list]") == std::string::npos;
}

} // namespace kiln::autotune

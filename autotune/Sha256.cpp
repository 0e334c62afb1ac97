// See Sha256.h.
#include "autotune/Sha256.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

std::string kiln::autotune::sha256(std::span<const std::byte> bytes) {
  auto digest =
      llvm::SHA256::hash({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  return llvm::toHex(digest, /*LowerCase=*/true);
}

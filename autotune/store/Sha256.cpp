// LLVM's implementation, behind two functions.
#include "autotune/store/Sha256.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

namespace kiln::autotune {

std::string sha256(std::span<const std::byte> bytes) {
  llvm::ArrayRef<std::uint8_t> data(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                    bytes.size());
  return llvm::toHex(llvm::SHA256::hash(data), /*LowerCase=*/true);
}

std::string sha256(std::string_view text) {
  return sha256(std::as_bytes(std::span(text.data(), text.size())));
}

} // namespace kiln::autotune

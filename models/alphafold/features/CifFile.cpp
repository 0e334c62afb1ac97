// See CifFile.h.
#include "models/alphafold/features/CifFile.h"

#include <gemmi/cif.hpp>

namespace kiln::alphafold {

namespace cif = gemmi::cif;

struct CifFile::Parsed {
  cif::Document document;
  cif::Block* block = nullptr;
};

CifFile::CifFile(const std::string& contents, const std::string& name)
    : parsed(std::make_unique<Parsed>()) {
  parsed->document = cif::read_memory(contents.data(), contents.size(), name.c_str());
  const std::string atoms = "_atom_site.label_atom_id";
  for (cif::Block& block : parsed->document.blocks)
    if (!parsed->block || (!parsed->block->has_tag(atoms) && block.has_tag(atoms)))
      parsed->block = &block;
}

CifFile::~CifFile() = default;

bool CifFile::hasBlock() const {
  return parsed->block != nullptr;
}

CifColumn CifFile::column(const std::string& tag) const {
  if (!hasBlock())
    return {};
  cif::Column found = parsed->block->find_values(tag);
  if (!found)
    return {};
  const int line = found.item()->line_number;
  const cif::Loop* loop = found.get_loop();
  if (!loop)
    return {&*found.begin(), 1, 0, line};
  static const std::string none; // of a loop without values
  return {loop->values.empty() ? &none : &loop->values[found.col()], loop->length(), loop->width(),
          line};
}

bool CifFile::isNull(const std::string& value) {
  return cif::is_null(value);
}

std::string CifFile::unquoted(const std::string& value) {
  return cif::as_string(value);
}

} // namespace kiln::alphafold

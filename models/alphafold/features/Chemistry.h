// What is known of the twenty amino acids: their atoms, chi angles, rigid groups and symmetries, as
// tables by residue type (0..19 in the order ARNDCQEGHILKMFPSTWYV, 20: unknown, which has nothing).
// The numbers are facts that AlphaFold and OpenFold (both Apache-2.0) publish in their constants;
// they lie in chemistry.json, which is embedded when Kiln is built.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kiln::alphafold {

inline constexpr int residueTypes = 20;
inline constexpr int unknownType = 20, gapType = 21, maskType = 22;
inline constexpr int msaTypes = 23; // with unknown, gap and mask token
inline constexpr int atomTypes = 37, denseAtoms = 14, rigidGroups = 8, torsions = 7;

template <typename T> using ByType = std::array<T, residueTypes + 1>;

struct Chemistry {
  std::string letters;                            // ARNDCQEGHILKMFPSTWYVX
  std::array<std::string, atomTypes> atomNames;   // N CA C CB O ...
  ByType<std::array<int, denseAtoms>> atom14To37; // -1 where the type has no such atom
  ByType<std::array<int, atomTypes>> atom37To14;  // -1 likewise
  /// Place in atom14 of each atom once the names of symmetric atoms are exchanged.
  ByType<std::array<int, denseAtoms>> exchanged;

  /// Atoms (of the 37) that span the frame of each rigid group: on its negative x axis (of the
  /// backbone: on the positive one), its origin, in its xy plane. Groups are backbone, pre-omega,
  /// phi (both without atoms), psi, chi 1 to 4. -1: the type has no such group.
  ByType<std::array<std::array<int, 3>, rigidGroups>> groupAtoms;
  /// Groups that the exchange of symmetric atoms turns by pi about their x axis.
  ByType<std::array<bool, rigidGroups>> isGroupAmbiguous;
  /// The rigid group of each of the 14 atoms, -1 where there is none, and the atom's place in it
  /// in angstrom, in the idealised residue.
  ByType<std::array<int, denseAtoms>> groupOfAtom;
  ByType<std::array<std::array<float, 3>, denseAtoms>> placeInGroup;

  ByType<std::array<std::array<int, 4>, 4>> chiAtoms; // of the 37; -1: no such angle
  ByType<std::array<bool, 4>> isChiPiPeriodic;

  /// By letter A..Z: 0..20 in the order above, as HHblits reads ambiguous ones (B: D, Z: E, U: C).
  std::array<std::uint8_t, 26> typeOfLetter;

  bool hasAtom(int type, int atom) const { return atom37To14[type][atom] >= 0; }
  /// Of a name of three letters such as ALA; none if it is not one of the twenty.
  std::optional<int> typeOfName(std::string_view name) const;
  /// Of an atom's name such as CA, in the 37.
  std::optional<int> atomOfName(std::string_view name) const;

  std::array<std::string, residueTypes> names; // ALA ARG ...
};

/// Read once. Throws Error(corrupt) if what is embedded is not as it should be.
const Chemistry& chemistry();

} // namespace kiln::alphafold

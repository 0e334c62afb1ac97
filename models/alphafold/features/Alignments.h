// Alignments of sequences: a3m, Stockholm and FASTA.
#pragma once

#include "models/alphafold/features/Chain.h"
#include "models/alphafold/features/Text.h"

#include <span>
#include <string>
#include <vector>

namespace kiln::alphafold {

struct Sequence {
  std::string name; // without what follows the first blank
  std::string letters;
};

/// The records of a FASTA file, letters in upper case. Throws Error(input) if there is none, if one
/// has no letters, and for characters that are no letters.
std::vector<Sequence> parseFasta(const Text& text);

/// Rows against the columns of the first one, which is the query: upper-case letters and '-'.
struct Alignment {
  struct Row {
    std::string name, columns;
    std::vector<std::uint16_t> deletions; // residues left out before each column, at most 65535
  };
  std::string source; // of which file, for messages
  std::vector<Row> rows;
};

/// a3m: lower-case letters are insertions against the query, '.' stands for none. Lines that begin
/// with '#' and NUL bytes (which MMseqs2 writes) before a record are skipped. An empty file has no
/// rows. Throws Error(input) with the line for other characters and rows of other lengths.
Alignment parseA3m(const Text& text);

/// Stockholm 1.0, in blocks or not. Columns in which the query has a gap are insertions of the
/// others. Throws Error(input) with the line; also where the last line, '//', is missing.
Alignment parseStockholm(const Text& text);

/// Why an alignment is not one of `query`; empty if it is. X agrees with anything.
std::string otherQuery(const std::string& query, const Alignment& alignment);

/// Rows of all alignments in turn, each sequence once, `query` first; not more than `mostCells` / R
/// rows, so that of huge alignments the best of each are kept. Throws Error(input) if an alignment
/// is of another query.
Msa mergeAlignments(const std::string& query, std::span<const Alignment> alignments,
                    std::int64_t mostCells);

/// A letter's type, as alignments use them: 0..20, and 21 for '-'.
std::uint8_t msaTypeOf(char letter);

} // namespace kiln::alphafold

// What a schedule of an attention kernel takes of a multiprocessor: threads, registers by role, and
// shared memory, by the device library's own formulas.
#pragma once

#include "codegen/families/attention/Schedule.h"

namespace kiln::attention {

/// By warpgroups, one of which loads: registers that a thread begins with, and that it ends with of
/// the warps that load, and of the others.
struct Registers {
  std::int64_t begin, loading, working;
};
Registers registersOf(const Schedule& schedule, const Facts& facts);

/// All gradients of heads without a bias by products of warpgroups: blocks have keys, and take
/// turns with the gradients of queries.
bool takesTurns(const Schedule& schedule, const Facts& facts);
/// products = heads: blocks that have all keys of a head. Rows of its own that a warp has, and rows
/// that it walks over whose scores it has at once (HeadTile in device/attention_heads.cuh,
/// HeadGradientTile in device/attention_heads_backward.cuh).
bool hasHeads(const Schedule& schedule);
std::int64_t rowsOfWarp(const Schedule& schedule, const Facts& facts);
std::int64_t stepOfHeads(const Schedule& schedule, const Facts& facts);
/// Queries whose gradients a block adds in one turn (TurnsTile in device/attention_turns_walk.cuh).
std::int64_t queriesOfTurn(const Schedule& schedule, const Facts& facts);
/// Warpgroups that compute.
std::int64_t computingGroups(const Schedule& schedule, const Facts& facts);
/// bias = held, of heads without a bias whose number is known at run time only: a block takes one.
bool takesOneHead(const Facts& facts);
/// bias = held: heads that each of those side by side takes, as far as that is known, and the
/// places for what a head has of its own: two, so that the next head's is loaded ahead, if there is
/// one.
double headsOfBlock(const Schedule& schedule, const Facts& facts);
std::int64_t slotsOf(const Schedule& schedule, const Facts& facts);
/// Elements of a row in shared memory by products of warpgroups, whose depth is 16.
std::int64_t paddedWidth(std::int64_t width);
/// Places of a bias that a block holds along what it walks over, whole tiles and whole panels:
/// keys, of the gradients of keys and values queries.
std::int64_t heldPlaces(const Schedule& schedule, const Facts& facts);
/// The gradient of the bias, summed beside those of keys and values: tiles of queries, and of these
/// the tiles whose sums a thread has in registers.
std::int64_t summedTiles(const Schedule& schedule, const Facts& facts);
std::int64_t tilesInRegisters(const Schedule& schedule, const Facts& facts);
/// Queries whose gradients are one product, where they are computed beside those of keys.
inline constexpr std::int64_t kGroupOfQueries = 64;
/// All gradients in one kernel: of more queries or keys than the former the sums of the bias's fill
/// the registers of two kernels, each of which has so many queries.
inline constexpr std::int64_t kMostOfWholeQueries = 256, kQueriesOfPart = 192;
inline constexpr std::int64_t kMostOfParts = 2 * kQueriesOfPart;
/// Queries that one kernel has of all that are known.
std::int64_t queriesOfPart(const Facts& facts);
/// Of two that have some each one leaves its sums of keys and values to the other.
inline bool leavesKeys(const Facts& facts) {
  return facts.isPart && facts.firstQuery == 0;
}
inline bool resumesKeys(const Facts& facts) {
  return facts.isPart && facts.firstQuery > 0;
}
/// The gradients of queries beside all others: blocks of the cluster that has all keys.
std::int64_t clusterOf(const Schedule& schedule, const Facts& facts);
/// A kernel by products of warps that is asked for the gradients of keys, of values and of the bias
/// is two: those of keys and values, and that of the bias; and three with those of queries. Without
/// a bias those of queries are one too unless blocks take turns, whose tiles are the others' turned
/// round: as many rows of its own. Else it is one, as it is given, or two that have some of the
/// queries each.
struct Part {
  Schedule schedule;
  Facts facts;
  const char* suffix = ""; // of the entry's name
};
std::vector<Part> partsOf(const Schedule& schedule, const Facts& facts);
/// products = threads: vectors of 16 bytes of the longer row, and the threads that have a row.
std::int64_t vectorsOfRow(const Facts& facts);
std::int64_t lanesOfRow(const Facts& facts);
/// Threads of a block.
std::int64_t threadsOf(const Schedule& schedule, const Facts& facts);
/// Shared memory of a block; the device library has the same formulas.
std::int64_t sharedBytes(const Schedule& schedule, const Facts& facts);
/// What a warp that takes turns stores 16 rounded rows of queries' gradients through.
std::int64_t storedRowsBytes(const Facts& facts);
/// Registers a thread will need, roughly; the assembler's count decides. In Registers.cpp.
std::int64_t estimatedRegisters(const Schedule& schedule, const Facts& facts);

/// Whether a block has keys and walks over queries.
bool walksOverQueries(const Facts& facts);
/// A block's own rows, and those of a tile that it walks over.
std::int64_t ownRows(const Schedule& schedule, const Facts& facts);
std::int64_t stepRows(const Schedule& schedule, const Facts& facts);

} // namespace kiln::attention

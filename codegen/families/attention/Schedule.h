// The schedule of an attention kernel: tiles of queries and keys, the stages that tiles pass
// through, and what they must satisfy. A forward and the gradients of queries and of the bias have
// a tile of queries in each block, 16 a warp, and walk over keys; the gradients of keys and values
// the other way round.
#pragma once

#include "codegen/backend/Target.h"
#include "codegen/model/Space.h"
#include "dialect/Schedule.h"

namespace kiln::attention {

enum class Launch { plain, programmatic };
/// Which products: of warps (mma.sync), of warpgroups (wgmma, sm_90a), of threads, of which a few
/// have a row, for heads of few rows, or of warps of a block that has a whole head.
enum class Products { warps, warpgroups, threads, heads };
/// Whether blocks read the bias for each head, or hold it while they take the heads that share it:
/// all heads where there is none. Widened they hold it as the accumulators of scores begin: in
/// fp32, over the scale.
enum class Bias { read, held, widened };
/// A block for each tile, or as many as fit, which take tiles one after the other.
enum class Grid { oneShot, resident };

/// The knobs as typed values.
struct Schedule {
  std::int64_t queries = 64; // of a tile
  std::int64_t keys = 64;    // of a tile
  std::int64_t stages = 2;   // of the tiles that a block walks over
  std::int64_t blocks = 1;   // that must fit on a multiprocessor: limits the registers
  std::int64_t groups = 1;   // of heads that share a bias, which different blocks take
  Launch launch = Launch::programmatic;
  Products products = Products::warps;
  Bias bias = Bias::read;
  std::int64_t side = 1; // heads that a block which holds their bias takes at once
  Grid grid = Grid::oneShot;
  bool operator==(const Schedule&) const = default;

  /// From the general form, which is of this family, and back.
  static Schedule of(const kiln::Schedule& schedule);
  kiln::Schedule general() const;
};
extern const ScheduleForm scheduleForm;

inline bool isResident(const Schedule& schedule) {
  return schedule.grid == Grid::resident;
}
inline bool holdsBias(const Schedule& schedule) {
  return schedule.bias != Bias::read;
}
/// Of narrow rows, with the bias as one more product.
inline bool holdsBiasByWarps(const Schedule& schedule) {
  return holdsBias(schedule) && schedule.products == Products::warps;
}

/// What a kernel computes. A backward is one of each that is asked for; where the bias's gradient
/// is summed beside those of keys and values, that is a keyGradient.
enum class Kind { forward, queryGradient, keyGradient, biasGradient };

/// What the choice depends on.
struct Facts {
  Kind kind = Kind::forward;
  int bytes = 2;                            // of an element of queries, keys and values
  int outBytes = 2, otherOutBytes = 2;      // of results; of keys' and of values' gradients
  int queryOutBytes = 2;                    // of queries', where sumsQueries
  int epilogueBytes = 0;                    // more that an element of the output reads and writes
  std::int64_t width = 64, valueWidth = 64; // of rows of queries and keys, and of values
  bool hasKeys = true, hasValues = true;    // keyGradient: which are asked for
  bool sumsBias = false;                    // and the bias's too
  bool sumsQueries = false;                 // and those of queries
  bool isPart = false;                      // one of two kernels that have some of the queries each
  std::int64_t firstQuery = 0;              // that it has
  bool canTakeTurns = false;                // with these, blocks of warpgroups
  bool isCausal = false, hasWindow = false, hasSoftcap = false;
  bool hasDropout = false;
  bool hasMask = false, masksPlaces = false;    // which is not of keys alone
  bool isMapped = false;                        // tensor maps show queries, keys and values
  bool isBiasMapped = false;                    // and the bias
  double biasBytes = 0;                         // a score
  std::int64_t sharing = 1;                     // heads that share a bias; 0: open
  std::int64_t sharingKeys = 1;                 // heads of queries that share one of keys
  std::int64_t knownKeys = 0, knownQueries = 0; // 0: known at run time
  bool hasPositiveScale = true;
  bool isBiasOfProducts = true; // bf16, which has the scale's inverse but for 2^-11 of it
  double heads = 1, keyHeads = 1, queries = 1, keys = 1;
  double places = 1;        // of a head: pairs of a query and a key that it sees
  double biases = 1;        // each shared by heads / biases
  int spilledRegisters = 0; // a thread: with so few the assembler spilled last; 0: not known
  int spills = 0;           // schedules that did
};

std::vector<model::Violation> check(const Schedule& schedule, const Facts& facts,
                                    const Target& target);
/// The same where the estimate of registers may be so many times those that a schedule leaves.
std::vector<model::Violation> check(const Schedule& schedule, const Facts& facts,
                                    const Target& target, double ofRegisters);

/// The cheapest by the cost model. Throws Error(infeasible) with the reasons if none fits.
Schedule defaultSchedule(const Facts& facts, const Target& target);

} // namespace kiln::attention

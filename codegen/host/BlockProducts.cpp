// Products of warpgroups (wgmma). They are computed at once, when all four warps have come; the
// sums are kept aside until a thread waits for them, and who may touch their operands, and when, is
// checked as for bulk copies.
#include "codegen/backend/Fail.h"
#include "codegen/host/BlockRunner.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln {

namespace {

constexpr int depth = 16; // elements that a product sums over
constexpr int leftRows = 64;
constexpr int pieceBytes = 16; // bytes of a descriptor's fields, and of an access
constexpr int pieceElements = 8;

/// What accumulators hold before the wait: a NaN that no arithmetic makes.
const float notWaitedFor = std::bit_cast<float>(std::uint32_t(0x7fc0dead));

bool isNotWaitedFor(float value) {
  return std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(notWaitedFor);
}

/// A matrix descriptor taken apart (device/descriptor.cuh); in bytes.
struct Operand {
  explicit Operand(std::uint64_t bits)
      : start(field(bits, 0)), panelStride(field(bits, 16)), groupStride(field(bits, 32)),
        baseOffset(static_cast<int>(bits >> 49 & 7)), code(static_cast<int>(bits >> 62)) {}

  static std::uint64_t field(std::uint64_t bits, int from) {
    return (bits >> from & 0x3fff) * pieceBytes;
  }
  std::uint64_t span() const { return code == 1 ? 128 : code == 2 ? 64 : 32; }

  /// Where the eight elements lie that begin with (row, column) of a tile that is stored by rows.
  std::uint64_t place(int row, int column) const {
    const std::uint64_t across = static_cast<std::uint64_t>(column) * 2;
    const auto down = static_cast<std::uint64_t>(row);
    const std::uint64_t at = start + across / span() * panelStride + down / 8 * groupStride +
                             down % 8 * span() + across % span();
    return at ^ (at >> 3 & (span() / pieceBytes - 1) << 4);
  }

  std::uint64_t start, panelStride, groupStride;
  int baseOffset, code;
};

bool isSame(const HostProduct& a, const HostProduct& b) {
  return a.columns == b.columns && (a.left == nullptr) == (b.left == nullptr) &&
         a.leftDescriptor == b.leftDescriptor && a.rightDescriptor == b.rightDescriptor &&
         a.leftTransposed == b.leftTransposed && a.rightTransposed == b.rightTransposed &&
         a.accumulate == b.accumulate;
}

} // namespace

void BlockRunner::offerProducts() {
  table.multiply = [](void* context, float* sums, const HostProduct* product) {
    static_cast<BlockRunner*>(context)->multiply(sums, *product);
  };
  table.fenceProducts = [](void* context) {
    static_cast<BlockRunner*>(context)->productsHere().fenced = true;
  };
  table.endProducts = [](void* context) {
    ++static_cast<BlockRunner*>(context)->productsHere().groups;
  };
  table.waitForProducts = [](void* context, int groups) {
    static_cast<BlockRunner*>(context)->waitForProducts(groups);
  };
}

/// Those of the running thread.
BlockRunner::Products& BlockRunner::productsHere() {
  products.resize(threads.size());
  return products[running];
}

BlockRunner::Warpgroup& BlockRunner::warpgroupHere() {
  const int whole = call.threads / warpgroupThreads, here = table.threadIndex / warpgroupThreads;
  if (here >= whole)
    failHere(fmt::format("takes part in a wgmma; its warpgroup has {} threads, not {}",
                         call.threads % warpgroupThreads, warpgroupThreads));
  warpgroups.resize(static_cast<std::size_t>(whole) * call.cluster);
  return warpgroups[table.clusterRank * whole + here];
}

void BlockRunner::multiply(float* sums, const HostProduct& product) {
  if (!productsHere().fenced)
    failHere("starts a wgmma with no wgmma_fence since its last wgmma_wait, or its start");
  Warpgroup& group = warpgroupHere();
  joinProduct(group, product);
  const bool last = ++group.arrived == warpgroupThreads;
  if (last) {
    readOperands(group);
    group.arrived = 0;
    const int first = running - table.threadIndex % warpgroupThreads;
    for (int thread = first; thread < first + warpgroupThreads; ++thread)
      threads[thread].state = State::ready;
  }
  suspend(last ? State::ready : State::multiplying);
  accumulate(group, product, sums);
}

/// The first to come says what the others must bring too.
void BlockRunner::joinProduct(Warpgroup& group, const HostProduct& product) {
  const int inGroup = productsHere().groups;
  if (group.arrived == 0) {
    group.product = product;
    group.starter = table.threadIndex;
    group.group = inGroup;
  } else if (!isSame(group.product, product)) {
    failHere(fmt::format("starts another wgmma than thread {} of its warpgroup", group.starter));
  } else if (group.group != inGroup) {
    failHere(fmt::format("starts a wgmma after {} wgmma_commit where thread {} of its warpgroup "
                         "starts it after {}",
                         inGroup, group.starter, group.group));
  }
  if (product.left)
    std::copy_n(product.left, 4, group.fragments[table.threadIndex % warpgroupThreads].begin());
}

/// All threads have come.
void BlockRunner::readOperands(Warpgroup& group) {
  const HostProduct& product = group.product;
  if (group.copier < 0)
    group.copier = shared.addCopier();
  group.right =
      readOperand(group, product.rightDescriptor, product.rightTransposed, product.columns);
  if (!product.left) {
    group.left = readOperand(group, product.leftDescriptor, product.leftTransposed, leftRows);
    return;
  }
  group.left.resize(leftRows * depth);
  for (int thread = 0; thread < warpgroupThreads; ++thread)
    for (int i = 0; i < 4; ++i) {
      const int row = thread / laneCount * 16 + thread % laneCount / 4 + i % 2 * 8;
      float* at = group.left.data() + row * depth + thread % 4 * 2 + i / 2 * 8;
      const std::uint32_t word = group.fragments[thread][i];
      at[0] = product.widen(static_cast<std::uint16_t>(word));
      at[1] = product.widen(static_cast<std::uint16_t>(word >> 16));
    }
}

/// (rows, 16) of an operand in shared memory.
std::vector<float> BlockRunner::readOperand(const Warpgroup& group, std::uint64_t descriptor,
                                            bool transposed, int rows) {
  const Operand operand(descriptor);
  if (operand.code == 0 || operand.baseOffset != 0)
    failHere(fmt::format("starts a wgmma by the descriptor {:#x}, of swizzle {} and base offset "
                         "{}; allowed are swizzles 1 to 3 and 0 (k_major, mn_major)",
                         descriptor, operand.code, operand.baseOffset));
  const int first = running - table.threadIndex % warpgroupThreads;
  std::vector<float> values(static_cast<std::size_t>(rows * depth));
  const int lines = transposed ? depth : rows, width = transposed ? rows : depth;
  for (int line = 0; line < lines; ++line)
    for (int column = 0; column < width; column += pieceElements) {
      const char* from = table.sharedMemory + operand.place(line, column);
      if (!shared.readOperand(first, group.copier, group.group, from, pieceBytes))
        failHere(shared.complaint());
      std::array<std::uint16_t, pieceElements> elements;
      std::memcpy(elements.data(), from, pieceBytes);
      for (int i = 0; i < pieceElements; ++i)
        values[transposed ? (column + i) * depth + line : line * depth + column + i] =
            group.product.widen(elements[i]);
    }
  return values;
}

/// What the running thread is to hold of its product. Others may have come to the next one, whose
/// operands are read when this thread has come too.
void BlockRunner::accumulate(const Warpgroup& group, const HostProduct& product, float* sums) {
  Products& mine = productsHere();
  const int count = product.columns / 2;
  auto before = std::ranges::find_if(mine.pending, [&](const Product& other) {
    return other.sums < sums + count && sums < other.sums + other.values.size();
  });
  if (before == mine.pending.end()) {
    mine.pending.push_back({sums, 0, std::vector<float>(sums, sums + count)});
    before = mine.pending.end() - 1;
  } else if (before->sums != sums || static_cast<int>(before->values.size()) != count) {
    failHere("starts a wgmma on some of the accumulators of another that it has not waited for");
  } else {
    checkUntouched(*before);
  }
  before->group = mine.groups;
  if (!product.accumulate)
    std::ranges::fill(before->values, 0.0f);
  const int lane = running % laneCount;
  const int firstRow = table.threadIndex % warpgroupThreads / laneCount * 16 + lane / 4;
  for (int i = 0; i < count; ++i) {
    const float* row = group.left.data() + (firstRow + i / 2 % 2 * 8) * depth;
    const float* column = group.right.data() + (i / 4 * 8 + lane % 4 * 2 + i % 2) * depth;
    double sum = before->values[i];
    for (int k = 0; k < depth; ++k)
      sum += static_cast<double>(row[k]) * column[k];
    before->values[i] = hostCutOff(sum);
  }
  std::fill_n(sums, count, notWaitedFor);
}

void BlockRunner::checkUntouched(const Product& product) const {
  if (!std::all_of(product.sums, product.sums + product.values.size(), isNotWaitedFor))
    failHere("has written accumulators of a wgmma before it waited for it");
}

void BlockRunner::waitForProducts(int groups) {
  Products& mine = productsHere();
  const int done = mine.groups - groups;
  for (const Product& product : mine.pending) {
    if (product.group >= done)
      continue;
    checkUntouched(product);
    std::ranges::copy(product.values, product.sums);
    mine.fenced = false;
  }
  std::erase_if(mine.pending, [&](const Product& product) { return product.group < done; });
  if (const Warpgroup& group = warpgroupHere(); group.copier >= 0)
    shared.completeCopies(group.copier, std::max(done, 0), running / laneCount);
}

} // namespace kiln

// The table of a list of tensors, word by word, and every refusal; the plan that names the lists.
#include "codegen/backend/ListTable.h"

#include "codegen/backend/LaunchPlan.h"
#include "test/backend/Helpers.h"
#include "test/backend/Plans.h"

#include <cstring>
#include <fmt/format.h>

using namespace kiln;
using namespace kiln::test;

namespace {

ListsInfo twoAndOne() {
  return {1024,
          {{"p", DType::f32, {}, {}, 4}, {"g", DType::bf16, {}, {}, 2}},
          {{"q", DType::f32, {}, {}, 4}}};
}

Buffer tensor(std::uintptr_t address, std::vector<std::int64_t> sizes,
              std::vector<std::int64_t> strides = {}) {
  return {reinterpret_cast<void*>(address), std::move(sizes), std::move(strides)};
}

struct ListsCall {
  std::vector<TensorList> inputs{
      {tensor(0x1000, {30, 100}), tensor(0, {0}), tensor(0x8004, {5})},
      {tensor(0x20000, {3000}), tensor(0, {7, 0}), tensor(0x30000, {5})}};
  std::vector<TensorList> outputs{{tensor(0x1000, {3000}), tensor(0, {0}), tensor(0x8004, {5})}};

  TensorLists lists(const ListsInfo& info = twoAndOne()) const { return {info, inputs, outputs}; }
  std::string error() const {
    return errorOf(ErrorKind::input, [&] { lists(); });
  }
};

std::vector<std::uint64_t> wordsOf(const TensorLists& lists) {
  std::vector<std::uint64_t> words(lists.tableBytes() / 8);
  std::memcpy(words.data(), lists.table().data(), lists.tableBytes());
  return words;
}

TEST(TensorLists, TableWordByWord) {
  TensorLists lists = ListsCall().lists();
  EXPECT_EQ(lists.entries(), 3u);
  EXPECT_EQ(lists.elements(), 3005);
  EXPECT_EQ(lists.chunks(), 4);
  constexpr std::uint64_t one = std::uint64_t(1) << 32;
  std::vector<std::uint64_t> expected = {0,
                                         one,
                                         2 * one,
                                         2, // three chunks of tensor 0, one of tensor 2
                                         2 * 3000 + 1,
                                         0x1000,
                                         0x20000,
                                         0x1000, // all multiples of 16
                                         1,
                                         0,
                                         0,
                                         0, // empty
                                         2 * 5,
                                         0x8004,
                                         0x30000,
                                         0x8004}; // two are not
  EXPECT_EQ(wordsOf(lists), expected);
}

/// What the host target guards is where a kernel looks.
TEST(TensorLists, TablesAreReadBack) {
  ListsCall call;
  const TensorLists lists = call.lists();
  const ListsInfo info = twoAndOne();
  const Buffer records = lists.inputs(lists.table().data(), {}).back();
  std::string text;
  for (const ListedTensor& tensor : tensorsOfTable(info, 0, records))
    text += fmt::format("{}{}[{}] {:x} {}; ", tensor.isOutput ? "out " : "", tensor.list->name,
                        tensor.entry, reinterpret_cast<std::uintptr_t>(tensor.data), tensor.bytes);
  EXPECT_EQ(text, "p[0] 1000 12000; g[0] 20000 6000; out q[0] 1000 12000; "
                  "p[1] 0 0; g[1] 0 0; out q[1] 0 0; "
                  "p[2] 8004 20; g[2] 30000 10; out q[2] 8004 20; ");
}

TEST(TensorLists, RelocatedTablesAreThoseMadeAnew) {
  ListsCall call;
  TensorLists lists = call.lists();
  call.inputs[1][0] = tensor(0x50002, {3000}); // no multiple of 16 any more
  call.outputs[0][2] = tensor(0x60000, {5, 1});
  const auto changed = lists.relocate(twoAndOne(), call.inputs, call.outputs);
  EXPECT_EQ(wordsOf(lists), wordsOf(call.lists()));
  EXPECT_EQ(changed.size(), 3u * 4 * 8);
  EXPECT_EQ(changed.data() + changed.size(), lists.table().data() + lists.tableBytes());
  const auto refusal = [&] {
    return errorOf(ErrorKind::input,
                   [&] { lists.relocate(twoAndOne(), call.inputs, call.outputs); });
  };
  for (TensorList* list : {&call.inputs[0], &call.inputs[1], &call.outputs[0]})
    (*list)[1] = tensor(0x70000, {2});
  EXPECT_HAS(refusal(), "tensor 1 of the lists has 2 elements, the table was made for 0");
  for (TensorList* list : {&call.inputs[0], &call.inputs[1], &call.outputs[0]})
    list->pop_back();
  EXPECT_HAS(refusal(), "2 tensors a list given, the table was made for 3");
}

TEST(TensorLists, InputsNameTheTwoParts) {
  ListsCall call;
  call.inputs[0][2] = tensor(0x8004, {0});
  call.inputs[1][2] = tensor(0x30000, {0});
  call.outputs[0][2] = tensor(0x8004, {0});
  TensorLists lists = call.lists(); // three chunks: a word of padding
  Buffer lr = tensor(0x40, {});
  auto inputs = lists.inputs(reinterpret_cast<void*>(0x7000), {&lr, 1});
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_EQ(inputs[0].data, lr.data);
  EXPECT_EQ(inputs[1].data, reinterpret_cast<void*>(0x7000));
  EXPECT_EQ(inputs[1].sizes, std::vector<std::int64_t>{3});
  EXPECT_EQ(inputs[2].data, reinterpret_cast<void*>(0x7000 + 4 * 8));
  EXPECT_EQ(inputs[2].sizes, std::vector<std::int64_t>{12});
}

TEST(TensorLists, StridesOfContiguousTensorsAreTaken) {
  ListsCall call;
  call.inputs[0][0].strides = {100, 1};
  EXPECT_EQ(call.lists().chunks(), 4);
  call.inputs[0][0].strides = {1, 30};
  EXPECT_HAS(call.error(), "'p[0]': is not contiguous; lists are made of contiguous tensors");
}

TEST(TensorLists, Refusals) {
  ListsCall call;
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { call.lists({}); }), "is not over lists of tensors");
  call.inputs.pop_back();
  EXPECT_HAS(call.error(), "1 input lists given, the program has 2");
  call = {};
  call.outputs[0].pop_back();
  EXPECT_HAS(call.error(), "output list 'q' has 2 tensors, the first list has 3");
  call = {};
  call.inputs[1][0] = tensor(0x20000, {2999});
  EXPECT_HAS(call.error(), "'g[0]': 2999 elements, the first list's tensor 0 has 3000");
  call = {};
  call.outputs[0][2].data = nullptr;
  EXPECT_HAS(call.error(), "'q[2]': the pointer is null and the tensor has 5 elements");
  call = {};
  call.inputs[1][0].data = reinterpret_cast<void*>(0x20001);
  EXPECT_HAS(call.error(), "'g[0]': the pointer is not a multiple of the element's 2 bytes");
  call = {};
  call.inputs[0][0] = tensor(0x1000, {-1});
  EXPECT_HAS(call.error(), "'p[0]': dimension 0 is -1");
  call = {};
  call.inputs[0][0] = tensor(0x1000, {std::int64_t(1) << 40, std::int64_t(1) << 40});
  EXPECT_HAS(call.error(), "does not fit in 64 bits");
}

TEST(TensorLists, AsManyChunksAsAGridHasBlocks) {
  ListsCall call;
  for (TensorList* list : {&call.inputs[0], &call.inputs[1], &call.outputs[0]})
    (*list)[2] = tensor(0x30000, {(std::int64_t(1) << 31) * 1024});
  EXPECT_HAS(call.error(), "up to tensor 2 need more than 2147483647 chunks of 1024");
}

/// p and g of part 0, r of part 1, then the result of each.
struct PartsCall {
  ListsInfo info{1024,
                 {{"p", DType::f32, {}, {}, 4, false, 0},
                  {"r", DType::bf16, {}, {}, 2, false, 1},
                  {"g", DType::f32, {}, {}, 4, false, 0}},
                 {{"q", DType::f32, {}, {}, 4, false, 0}, {"s", DType::bf16, {}, {}, 2, false, 1}}};
  std::vector<TensorList> inputs{{tensor(0x1000, {1025})},
                                 {tensor(0x3002, {5}), tensor(0x4000, {3000})},
                                 {tensor(0x2000, {1025})}};
  std::vector<TensorList> outputs{{tensor(0x1000, {1025})},
                                  {tensor(0x3002, {5}), tensor(0x4000, {3000})}};
};

TEST(TensorLists, PartsFollowEachOtherInTheTable) {
  PartsCall call;
  TensorLists lists(call.info, call.inputs, call.outputs);
  EXPECT_EQ(call.info.parts(), 2);
  EXPECT_EQ(lists.entries(), 3u);
  EXPECT_EQ(lists.elements(), 1025 + 3005);
  EXPECT_EQ(lists.chunks(), 2 + 4);
  constexpr std::uint64_t one = std::uint64_t(1) << 32;
  const std::vector<std::uint64_t> expected = {0,
                                               one, // chunks of part 0
                                               0,
                                               1,
                                               one + 1,
                                               2 * one + 1, // and of part 1
                                               2 * 1025 + 1,
                                               0x1000,
                                               0x2000,
                                               0x1000, // a record of three pointers
                                               2 * 5,
                                               0x3002,
                                               0x3002, // two of two
                                               2 * 3000 + 1,
                                               0x4000,
                                               0x4000};
  EXPECT_EQ(wordsOf(lists), expected);
  Buffer lr = tensor(0x40, {});
  const auto inputs = lists.inputs(reinterpret_cast<void*>(0x7000), {&lr, 1});
  ASSERT_EQ(inputs.size(), 5u);
  const std::pair<std::int64_t, std::int64_t> places[] = {{0, 2}, {6, 4}, {2, 4}, {10, 6}};
  for (int i : {0, 1, 2, 3}) { // chunks and segments of part 0, then of part 1
    EXPECT_EQ(inputs[1 + i].data, reinterpret_cast<void*>(0x7000 + 8 * places[i].first)) << i;
    EXPECT_EQ(inputs[1 + i].sizes, std::vector<std::int64_t>{places[i].second}) << i;
  }
  call.inputs[1][1] = tensor(0x5000, {3000});
  const auto changed = lists.relocate(call.info, call.inputs, call.outputs);
  EXPECT_EQ(wordsOf(lists), wordsOf(TensorLists(call.info, call.inputs, call.outputs)));
  EXPECT_EQ(changed.size(), 10u * 8);
}

TEST(TensorLists, TheCounterComesFirstAndStays) {
  PartsCall call;
  const std::vector<std::uint64_t> without =
      wordsOf(TensorLists(call.info, call.inputs, call.outputs));
  call.info.counts = true;
  EXPECT_EQ(call.info.tableInputs(), 5);
  TensorLists lists(call.info, call.inputs, call.outputs);
  std::vector<std::uint64_t> expected = {0, 0};
  expected.insert(expected.end(), without.begin(), without.end());
  EXPECT_EQ(wordsOf(lists), expected);
  const auto inputs = lists.inputs(reinterpret_cast<void*>(0x7000), {});
  ASSERT_EQ(inputs.size(), 5u);
  EXPECT_EQ(inputs[0].data, reinterpret_cast<void*>(0x7010));
  EXPECT_EQ(inputs[4].data, reinterpret_cast<void*>(0x7000));
  EXPECT_EQ(inputs[4].sizes, std::vector<std::int64_t>{1});
  EXPECT_EQ(lists.relocate(call.info, call.inputs, call.outputs).size(), 10u * 8)
      << "blocks may be counted meanwhile";
}

TEST(TensorLists, EachPartHasLengthsOfItsOwn) {
  PartsCall call;
  const auto refusal = [&] {
    return errorOf(ErrorKind::input, [&] { TensorLists(call.info, call.inputs, call.outputs); });
  };
  call.outputs[1].pop_back();
  EXPECT_HAS(refusal(), "output list 's' has 1 tensors, the first list of part 1 has 2");
  call = {};
  call.outputs[1][0] = tensor(0x3002, {6});
  EXPECT_HAS(refusal(), "'s[0]': 6 elements, the first list's tensor 0 has 5");
}

TEST(TensorLists, PlanKeepsTheListsThroughItsText) {
  LaunchPlan plan = rowPlan();
  EXPECT_EQ(toJson(plan).find("lists"), std::string::npos);
  plan.lists = twoAndOne();
  LaunchPlan back = parseLaunchPlan(toJson(plan));
  EXPECT_EQ(back.lists.chunk, 1024);
  ASSERT_EQ(back.lists.inputs.size(), 2u);
  EXPECT_EQ(back.lists.inputs[1].name, "g");
  EXPECT_EQ(back.lists.inputs[1].dtype, DType::bf16);
  EXPECT_EQ(back.lists.outputs[0].name, "q");
  LaunchPlan parts = rowPlan();
  parts.lists = PartsCall().info;
  for (const char* table : {"segments", "chunks"})
    parts.inputs.push_back({table, DType::i64, {Extent{0, 2}}, {1}, 16});
  back = parseLaunchPlan(toJson(parts));
  EXPECT_EQ(back.lists.parts(), 2);
  EXPECT_EQ(back.lists.inputs[1].part, 1);
  EXPECT_EQ(back.lists.outputs[0].part, 0);
  EXPECT_FALSE(back.lists.counts);
  plan.lists = PartsCall().info;
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { parseLaunchPlan(toJson(plan)); }),
             "plan.inputs has 2 tensors; the last 4 of a program over lists are the table, two for "
             "each part");
  plan.lists.counts = true;
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { parseLaunchPlan(toJson(plan)); }),
             "the last 5 of a program over lists are the table, two for each part and a counter");
  parts.lists.counts = true;
  parts.inputs.push_back({"counted", DType::i32, {Extent{1, -1}}, {1}, 16});
  EXPECT_TRUE(parseLaunchPlan(toJson(parts)).lists.counts);
  plan.lists = twoAndOne();
  plan.lists.outputs[0].part = 32;
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { parseLaunchPlan(toJson(plan)); }),
             "plan.lists.outputs[0].part is 32; allowed are whole numbers from 0 to 31");
  plan.lists = twoAndOne();
  plan.inputs.resize(1);
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { parseLaunchPlan(toJson(plan)); }),
             "plan.inputs has 1 tensors; the last 2 of a program over lists are the table");
}

TEST(TensorLists, OneThatWasMovedFromHasNoTable) {
  PartsCall call;
  TensorLists lists(call.info, call.inputs, call.outputs), taken = std::move(lists);
  EXPECT_EQ(lists.entries(), 0U);
  EXPECT_HAS(
      errorOf(ErrorKind::input, [&] { lists.relocate(call.info, call.inputs, call.outputs); }),
      "lists of 2 parts given, the table was made for 0");
  EXPECT_NO_THROW(taken.relocate(call.info, call.inputs, call.outputs));
}

} // namespace

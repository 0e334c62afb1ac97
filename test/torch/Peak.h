// The bytes that tensors of the CPU hold while one of these lives, now and at most: the CPU's
// allocator with counts. Of what is allocated meanwhile only, and all of it is released before.
#pragma once

#include <algorithm>
#include <atomic>
#include <c10/core/CPUAllocator.h>

namespace kiln::test {

/// The bytes that a step holds at most.
struct Peak : c10::Allocator {
  Peak() : below(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, /*priority=*/1); }
  ~Peak() override { c10::SetCPUAllocator(below, 1); }
  struct Block {
    c10::DataPtr memory;
    Peak* of;
    std::size_t bytes;
  };
  c10::DataPtr allocate(std::size_t bytes) override {
    held += bytes;
    most = std::max(most, held);
    auto* block = new Block{below->allocate(bytes), this, bytes};
    return {block->memory.get(), block, &release, c10::DeviceType::CPU};
  }
  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    block->of->held -= block->bytes;
    delete block;
  }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    below->copy_data(to, from, count);
  }
  c10::Allocator* below;
  std::size_t held = 0, most = 0;
};

} // namespace kiln::test

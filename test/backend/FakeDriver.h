// A stand-in for libcuda.so.1 that writes down what it is asked: shows on a machine without a GPU
// what a launch hands to the driver and, as much, what it does not call.
#pragma once

#include "codegen/backend/Driver.h"

namespace kiln::test {

struct FakeDriver {
  CuStatus initStatus = 0; // what cuInit answers
  int devices = 2;
  int currentDevice = -1; // -1: the thread has no context
  std::string missing;    // a function that this driver does not have
  std::string failing;    // a function that answers `failure`
  CuStatus failure = 0;
  std::vector<std::string> calls;
  CuLaunchConfig launch{}; // of the last launch
  std::vector<CuLaunchAttribute> attributes;
  std::vector<std::uint64_t> values; // the first arguments of the last launch
  std::size_t valueCount = 0;        // how many to read; the driver knows it from the code
  /// What the last tensor map was made of: type, rank, sizes, strides, box, element strides,
  /// interleave, swizzle, promotion, fill. The map itself begins with the address.
  std::vector<std::uint64_t> tensorMap;
};

using FakeDriverFunction = FakeDriver* (*)();

} // namespace kiln::test

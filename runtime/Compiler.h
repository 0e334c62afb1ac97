// The thread that makes kernels: what a store has chosen, else the cost model's choice, compiled.
// Started at the first request, joined at the end of the process.
#pragma once

#include "kiln/torch.h"
#include "runtime/Order.h"

namespace kiln::runtime {

/// Where kernels are taken from and kept, from here on.
void configureCompiler(const Options& options);
void enqueue(Order& order);
/// Returns when the order is settled, with a kernel or without.
void waitFor(const Order& order);
void waitForAll();
/// "in /home/me/tuned.db"; warnings about stores follow.
std::string describeStores();

} // namespace kiln::runtime

// The same kernels on all ranks: what stores choose is compared and fixed before training begins,
// and what they lack can be tuned by all ranks together, each on a GPU of its own.
//
//   kiln::enable();
//   auto group = kiln::dist::Group::start(kiln::dist::Place::fromEnvironment(), {.device =
//   device}); kiln::dist::tune(*group, tasks, "tuned.db", {.worker = {"kernel-compile",
//   "worker"}}); kiln::dist::freezeChoices(*group);
#pragma once

#include "kiln/dist/group.h"
#include "kiln/tune.h"

namespace kiln::dist {

/// kiln::freeze() on all ranks, of which none changes a choice from here on. Throws Error(input) on
/// all of them where some differ from rank 0 in Kiln's or NVRTC's version, mode, ops or what their
/// stores choose, with the ranks and the line that differs; and in mode `tune`.
KILN_API void freezeChoices(Group& group);

/// kiln::tune() by all ranks, of one list into one store that all of them see: by the store's
/// leases each takes tasks that no other has, and times them on the GPU of the group's device,
/// unless `options.device` names a simulated one. Returns on all ranks when all tasks are done;
/// `known` are those that were chosen before, or by another rank. Where a rank ends, others take
/// its tasks; the error that names it comes when they are through.
KILN_API std::vector<TuneResult> tune(Group& group, std::span<const TuneTask> tasks,
                                      const std::filesystem::path& store, TuneOptions options);

} // namespace kiln::dist

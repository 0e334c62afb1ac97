// Where a process stands among those that train together, as its launcher says by environment
// variables, and a launcher for one machine. Plain C++: no header of Torch.
//
//   int main(int argc, char** argv) {
//     if (kiln::dist::Place::fromEnvironment().size == 1 && ranks > 1)
//       return kiln::dist::launch(argc, argv, {.ranks = ranks});  // this program, so many times
//     ...
//   }
#pragma once

#include "kiln/kiln.h"

#include <chrono>

namespace kiln::dist {

struct Place {
  int rank = 0, size = 1;           // among all
  int localRank = 0, localSize = 1; // among those of this machine
  std::string host = "127.0.0.1";   // where rank 0 listens
  std::uint16_t port = 29500;
  std::string launcher{}; // "torchrun", "Slurm", "Open MPI", or empty: nobody started it

  /// By, in this order:
  ///   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
  ///   Open MPI   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
  ///   Slurm      SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID in a step of srun
  /// Under the latter two MASTER_ADDR and MASTER_PORT are wanted where ranks have several machines;
  /// Slurm's first node and a port by the job's number stand in for them. One rank without any.
  /// Throws Error(input) for numbers that do not fit.
  KILN_API static Place fromEnvironment();
};

struct LaunchOptions {
  int ranks = 1;
  std::chrono::milliseconds grace{5000}; // from SIGTERM to SIGKILL, once a rank has failed
};

/// Starts this program, by fork and exec with the same arguments, as so many ranks of this machine,
/// and waits for them. Rank 0 has this process's output; lines of others come with their rank in
/// front. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on, once each. Where a rank
/// fails, the others are ended, and what is returned is its exit code, or 128 and the number of the
/// signal that ended it; a line on the error stream says which rank it was. Ranks do not outlive a
/// launcher that is killed. Unless it is set, OMP_NUM_THREADS becomes the rank's share of the
/// cores. Throws Error(input, io).
KILN_API int launch(int argc, const char* const* argv, const LaunchOptions& options);

} // namespace kiln::dist

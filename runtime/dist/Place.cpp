// See kiln/dist/place.h: launchers' environment variables.
#include "kiln/dist/place.h"

#include "runtime/dist/Fail.h"

#include <charconv>
#include <cstdlib>
#include <optional>

namespace kiln::dist {

namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

int parsed(const char* name, const std::string& text, int least, int most) {
  int value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || value < least ||
      value > most)
    fail(ErrorKind::input, "{}={}: a whole number of {} to {} is needed", name, printable(text),
         least, most);
  return value;
}

constexpr int kMostRanks = 1 << 20;

int numberOf(const char* name, int least, int most, std::optional<int> otherwise = {}) {
  const auto text = variable(name);
  if (!text && otherwise)
    return *otherwise;
  if (!text)
    fail(ErrorKind::input,
         "{} is not set, but others of its launcher's variables are; torchrun sets RANK, "
         "WORLD_SIZE, "
         "LOCAL_RANK, MASTER_ADDR and MASTER_PORT",
         name);
  return parsed(name, *text, least, most);
}

struct Names {
  const char *launcher, *rank, *size, *localRank, *localSize;
};
constexpr Names kNames[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"}};

/// Whose variables are set. A batch script of Slurm has them too, but is no task of srun's.
const Names* namesHere() {
  for (const Names& names : kNames)
    if (variable(names.rank) || (&names == kNames && variable(names.size)))
      if (std::string_view(names.launcher) != "Slurm" || variable("SLURM_STEP_ID"))
        return &names;
  return nullptr;
}

/// "node[03-05,9]" is node03 first.
std::string firstNode(const std::string& list) {
  const auto open = list.find_first_of("[,");
  if (open == std::string::npos || list[open] == ',')
    return list.substr(0, open);
  const auto end = list.find_first_of("-,]", open + 1);
  return list.substr(0, open) + list.substr(open + 1, end - open - 1);
}

void findMeeting(Place& place) {
  if (const auto nodes = variable("SLURM_STEP_NODELIST"); nodes && place.launcher == "Slurm")
    place.host = firstNode(*nodes);
  if (const auto job = variable("SLURM_JOB_ID"); job && place.launcher == "Slurm")
    place.port = std::uint16_t(20000 + parsed("SLURM_JOB_ID", *job, 0, 2'000'000'000) % 20000);
  if (const auto host = variable("MASTER_ADDR"))
    place.host = *host;
  place.port = std::uint16_t(numberOf("MASTER_PORT", 1, 65535, place.port));
}

} // namespace

Place Place::fromEnvironment() {
  Place place;
  const Names* names = namesHere();
  if (!names)
    return place;
  place.launcher = names->launcher;
  place.size = numberOf(names->size, 1, kMostRanks);
  place.rank = numberOf(names->rank, 0, place.size - 1);
  place.localRank = numberOf(names->localRank, 0, place.size - 1, place.rank);
  place.localSize = numberOf(names->localSize, 1, place.size, place.size);
  if (place.localRank >= place.localSize)
    fail(ErrorKind::input, "{}={} and {}={}: ranks of a machine count from 0", names->localRank,
         place.localRank, names->localSize, place.localSize);
  findMeeting(place);
  return place;
}

} // namespace kiln::dist

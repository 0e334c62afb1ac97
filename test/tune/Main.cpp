// The tests of the tuner; started with --worker and a simulation as JSON, the program is the worker
// process of one of them instead.
#include "autotune/measure/Worker.h"
#include "autotune/simulate/SimulatedDevice.h"

#include <gtest/gtest.h>

using namespace kiln::autotune;

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--worker") {
    Simulation simulation = simulationOf(Json::parse(argv[2]));
    return serve([&] { return std::make_unique<SimulatedDevice>(simulation); });
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

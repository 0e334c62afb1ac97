// predict_alphafold: structures of proteins by a trained AlphaFold 2.
#include "models/alphafold/predict/Predict.h"
#include "models/common/Program.h"

int main(int argc, char** argv) {
  return kiln::models::guarded("predict_alphafold", [&] {
    int status = 0;
    const auto options = kiln::alphafold::parsePredict(argc, argv, status);
    if (!options)
      return status;
    kiln::models::startKiln(options->kiln);
    predict(*options);
    return 0;
  });
}

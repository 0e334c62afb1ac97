// The flags of predict_alphafold.
#include "models/alphafold/predict/Predict.h"

#include "models/common/Fail.h"
#include "models/common/Flags.h"

namespace kiln::alphafold {

namespace {

std::vector<models::Flag> flagsOf(PredictOptions& o) {
  const char *model = "Model", *protein = "Proteins", *numbers = "Numbers", *run = "Run";
  return {
      {model, "weights", &o.weights,
       "a checkpoint, of which the averages count, or any safetensors file under OpenFold's names"},
      {model, "model", &o.model,
       "of a file that does not say: model_1, model_1_ptm, small or tiny; empty: model_1"},
      {protein, "sequences", &o.sequences, "FASTA file"},
      {protein, "structures", &o.structures,
       "mmCIF file, or folder of them: sequences, and the truth to compare with"},
      {protein, "alignments", &o.alignments,
       "folder of NAME/, ID_CHAIN/ or ID/ with alignments and hits; without, the sequence alone"},
      {protein, "template-structures", &o.templateStructures,
       "folder of ID.cif that hits name; empty: no templates"},
      {protein, "features", &o.features, "instead: a folder that alphafold_features made"},
      {protein, "chains", &o.chains, "only these, such as 1k1a_A,102m_A; empty: all"},
      {protein, "msa-clusters", &o.clusters, "rows, at most"},
      {protein, "extra-msa", &o.extra, "rows, at most"},
      {protein, "templates", &o.templates, "at most"},
      {protein, "recycling", &o.passes, "passes"},
      {protein, "seed", &o.seed, "of what is drawn from an alignment"},
      {numbers, "device", &o.device, "cpu, cuda or cuda:N; empty: a GPU if there is one"},
      {numbers, "precision", &o.precision, "fp32, tf32 or bf16"},
      {numbers, "kiln", &o.kiln, "on: Kiln's kernels under LibTorch's ops; verify; off"},
      {run, "out", &o.out, "folder for NAME.pdb, NAME.cif and NAME.json"},
      {run, "export", &o.exportTo,
       "safetensors file for the weights alone, under OpenFold's names"},
  };
}

const char* examples = R"(Examples:
  predict_alphafold --weights=run/weights.safetensors --sequences=target.fasta --alignments=alignments
  predict_alphafold --weights=run/step-001000.safetensors --structures=1k1a.cif --alignments=proteins
      also compares with the structure: lDDT-CA, dRMSD, GDT-TS
  predict_alphafold --weights=run/step-001000.safetensors --export=openfold.safetensors
)";

} // namespace

void PredictOptions::check() const {
  using namespace models;
  atLeast("msa-clusters", clusters, 1);
  atLeast("extra-msa", extra, 1);
  atLeast("templates", templates, 0);
  atLeast("recycling", passes, 1);
  oneOf("precision", precision, {"fp32", "tf32", "bf16"});
  oneOf("kiln", kiln, {"off", "on", "verify"});
  if (weights.empty())
    fail(ErrorKind::input, "--weights=FILE is needed; --help shows examples");
  const bool hasFiles = !sequences.empty() || !structures.empty();
  if (hasFiles && !features.empty())
    fail(ErrorKind::input,
         "--features={} holds proteins already; leave --sequences and "
         "--structures out, or --features",
         features);
  if (!hasFiles && features.empty() && exportTo.empty())
    fail(ErrorKind::input, "there is no protein: --sequences=FASTA, --structures=mmCIF or "
                           "--features=FOLDER is needed");
}

std::optional<PredictOptions> parsePredict(int argc, const char* const* argv, int& status) {
  PredictOptions options;
  const models::Command command = {
      "predict_alphafold",
      "Predicts structures of proteins by AlphaFold 2's monomer: PDB, mmCIF and figures.",
      examples};
  if (!readFlags(command, flagsOf(options), argc, argv, status))
    return {};
  options.check();
  return options;
}

} // namespace kiln::alphafold

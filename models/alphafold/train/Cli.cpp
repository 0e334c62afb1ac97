// The flags of train_alphafold, each with its member of TrainOptions and what it means; the same
// names stand in JSON files for --config.
#include "models/alphafold/train/Options.h"

#include "models/common/Fail.h"
#include "models/common/Flags.h"

namespace kiln::alphafold {

namespace {

std::vector<models::Flag> flagsOf(TrainOptions& o) {
  const char *model = "Model", *data = "Data", *training = "Training", *numbers = "Numbers",
             *run = "Run", *other = "Instead of training";
  std::vector<models::Flag> flags = {
      {model, "model", &o.size,
       "model_1 (93 M), model_1_ptm (with the aligned-error head), small (1 M), tiny"},
      {model, "dropout", &o.dropout, "share of the model's own dropout: 1 all, 0 none"},
      {data, "data", &o.data,
       "folder of mmCIF files and ID_CHAIN/ with their alignments, or of what alphafold_features "
       "made"},
      {data, "cache", &o.cache, "folder for features of --data; empty: OUT/features"},
      {data, "template-structures", &o.templateStructures,
       "folder of ID.cif that hits name; empty: no templates"},
      {data, "chains", &o.chains, "only these of --data, such as 1k1a_A,102m_A; empty: all"},
      {data, "cluster-file", &o.clusterFile,
       "a line a cluster of alike chains, which are drawn as often as one; empty: one chain each"},
      {data, "crop", &o.crop, "residues; 0: of the stage, 256 or 384"},
      {data, "msa-clusters", &o.clusters, "rows; 0: of the stage, 128 or 512"},
      {data, "extra-msa", &o.extra, "rows; -1: of the stage, 1024 or 5120"},
      {data, "templates", &o.templates, "at most; -1: of the stage, 4"},
      {data, "workers", &o.workers, "threads that make batches ahead"},
      {training, "stage", &o.stage, "initial or finetune: weights of losses, sizes of examples"},
      {training, "steps", &o.steps, "of the whole run"},
      {training, "batch", &o.batch, "proteins a step, one after the other"},
      {training, "recycling", &o.passes, "passes of a step, 1 to as many, drawn for each step"},
      {training, "learning-rate", &o.learningRate, "at the end of the warm-up"},
      {training, "warmup", &o.warmup, "steps"},
      {training, "decay", &o.decay, "of the learning rate, each time"},
      {training, "decay-after", &o.decayAfter, "steps between two falls"},
      {training, "beta1", &o.beta1, "Adam's"},
      {training, "beta2", &o.beta2, "Adam's"},
      {training, "eps", &o.eps, "Adam's"},
      {training, "clip", &o.clip, "largest global norm of the gradient; 0: any"},
      {training, "ema", &o.ema, "decay of the averaged weights, which are validated and shipped"},
      {training, "seed", &o.seed, "of the weights, dropout, and what is drawn from the data"},
      {numbers, "device", &o.device, "cpu, cuda or cuda:N; empty: a GPU if there is one"},
      {numbers, "precision", &o.precision,
       "fp32, tf32, or bf16 (autocast; structure module, heads and losses in fp32)"},
      {numbers, "kiln", &o.kiln,
       "on: Kiln's kernels under LibTorch's ops, and its AdamW; verify: on, compared with ATen's; "
       "off"},
      {numbers, "recompute", &o.recompute,
       "none; blocks: of trunk and templates, again in the backward, to save memory"},
      {numbers, "deterministic", &o.deterministic, "only algorithms that repeat bit by bit"},
      {numbers, "graphs", &o.graphs,
       "replays forward and backward as one CUDA graph for each number of passes"},
      {run, "out", &o.out, "folder for checkpoints, config.json, and the rest unless named"},
      {run, "log", &o.log, "file of JSON lines; empty: OUT/log.jsonl"},
      {run, "resume", &o.resume,
       "a checkpoint, 'latest' of --out, or 'auto': the latest if there is one"},
      {run, "weights", &o.weights,
       "a safetensors file under OpenFold's names to begin with, as for fine-tuning"},
      {run, "validation", &o.validation, "as --data, of proteins to evaluate on; empty: none"},
      {run, "evaluate-every", &o.evaluateEvery, "steps; 0: never"},
      {run, "evaluate-proteins", &o.evaluateProteins, "of --validation, the first"},
      {run, "checkpoint-every", &o.checkpointEvery, "steps; 0: only at the end"},
      {run, "keep", &o.keep, "checkpoints"},
      {run, "log-every", &o.logEvery, "steps"},
      {run, "profile", &o.profile,
       "as many rows of tables of ops and kernels, of three steps before the run or after --bench"},
      {run, "record-shapes", &o.recordShapes,
       "a workload file for kernel-compile tune, written at the end: the kernels that ran and that "
       "no store has measured"},
      {other, "bench", &o.bench,
       "times as many steps on made-up proteins for each number of passes, then each part of the "
       "model; lines of JSON"},
  };
  const std::vector<models::Flag> ranks = o.ranks.flags();
  flags.insert(flags.end(), ranks.begin(), ranks.end());
  return flags;
}

const char* examples = R"(Examples:
  train_alphafold --data=proteins --steps=2000 --precision=bf16 --kiln=on
      of structures and alignments; features, checkpoints, log and options are kept in run/
  train_alphafold --data=proteins --chains=1k1a_A --dropout=0 --warmup=50 --steps=500
      learns one protein by heart
  train_alphafold --config=run/config.json --steps=5000 --resume=latest
      goes on where the newest checkpoint stands, bit by bit as if it had never stopped
  train_alphafold --data=proteins --stage=finetune --weights=run/weights.safetensors --out=fine
  train_alphafold --data=proteins --nproc=2 --batch=4
      what --batch=8 of one process does, by two
  train_alphafold --bench=10 --precision=bf16 --kiln=on
)";

} // namespace

std::string TrainOptions::text() const {
  TrainOptions copy = *this;
  return models::textOf(flagsOf(copy));
}

std::optional<TrainOptions> parse(int argc, const char* const* argv, int& status) {
  TrainOptions options;
  const models::Command command = {
      "train_alphafold", "Trains AlphaFold 2's monomer on structures and alignments of proteins.",
      examples};
  if (!readFlags(command, flagsOf(options), argc, argv, status))
    return {};
  options.settle();
  options.check();
  if (options.data.empty() && options.bench == 0)
    models::fail(ErrorKind::input,
                 "--data=FOLDER, of proteins to train on, is needed; --help shows examples");
  return options;
}

} // namespace kiln::alphafold

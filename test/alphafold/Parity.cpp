// Runs one module on numbers from a file, forward and backward, and writes what it found, so that
// parity_test.py can compare it with a reference.
//   alphafold_parity IN OUT
// IN: metadata `module` and `config`; input.NAME, parameter.NAME, given.NAME (without gradients),
// and for each result the gradient that comes back to it, cotangent.NAME. OUT: output.NAME,
// gradient.input.NAME, gradient.parameter.NAME, for those that have one.
#include "models/alphafold/losses/Fape.h"
#include "models/alphafold/losses/Lddt.h"
#include "models/alphafold/losses/Losses.h"
#include "models/alphafold/losses/Metrics.h"
#include "models/alphafold/losses/Predictions.h"
#include "models/alphafold/losses/Structure.h"
#include "models/alphafold/losses/Violation.h"
#include "models/alphafold/model/AllAtom.h"
#include "models/alphafold/model/AlphaFold.h"
#include "models/alphafold/model/AtomTables.h"
#include "models/alphafold/model/TemplateFeatures.h"
#include "models/common/Fail.h"
#include "models/common/Safetensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <iostream>

namespace kiln::alphafold {
namespace {

using at::Tensor;
using models::NamedTensor;
using Results = std::map<std::string, Tensor>;

class Case {
 public:
  explicit Case(const char* path) : file(path), config(ModelConfig::parse(file.text("config"))) {}

  const std::string& module() const { return file.text("module"); }
  Tensor input(const std::string& name) {
    if (file.contains("given." + name))
      return file.tensor("given." + name).clone();
    const Tensor leaf = file.tensor("input." + name).clone().requires_grad_();
    leaves.push_back({"input." + name, leaf});
    return leaf;
  }

  /// Features under their names.
  Inputs inputs(const std::string& prefix = "") const {
    Inputs all;
    all.each([&](const char* name, Tensor& tensor) {
      if (file.contains("given." + prefix + name))
        tensor = file.tensor("given." + prefix + name).clone();
    });
    return all;
  }

  /// With the file's parameters.
  template <typename Module> Module load(Module module) {
    module->to(at::kDouble);
    module->eval();
    const at::NoGradGuard constant;
    for (auto& parameter : module->named_parameters()) {
      file.read("parameter." + parameter.key(), parameter.value());
      leaves.push_back({"parameter." + parameter.key(), parameter.value()});
    }
    return module;
  }

  void finish(const Results& results, const char* path) const {
    std::vector<NamedTensor> found;
    std::vector<Tensor> outputs, cotangents, wanted;
    for (const auto& [name, tensor] : results) {
      found.push_back({"output." + name, tensor});
      if (file.contains("cotangent." + name)) {
        outputs.push_back(tensor);
        cotangents.push_back(file.tensor("cotangent." + name));
      }
    }
    for (const NamedTensor& leaf : leaves)
      wanted.push_back(leaf.tensor);
    if (!outputs.empty() && !wanted.empty()) {
      const auto gradients = torch::autograd::grad(outputs, wanted, cotangents, /*retain=*/false,
                                                   /*create_graph=*/false, /*allow_unused=*/true);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        if (gradients[i].defined())
          found.push_back({"gradient." + leaves[i].name, gradients[i]});
    }
    models::writeSafetensors(path, found, {});
  }

 private:
  models::Safetensors file;
  std::vector<NamedTensor> leaves;

 public:
  const ModelConfig config;
};

using Run = Results (*)(Case&);

/// Modules of one tensor and its mask.
template <typename Module> Results masked(Case& in, Module module) {
  return {{"y", in.load(module)(in.input("x"), in.input("mask"))}};
}

Rigid frames(Case& in, const std::string& prefix = "") {
  const Tensor rotation = in.input(prefix + "rotation");
  return {rotation, in.input(prefix + "translation")};
}

/// What the structure module would have found.
PredictedStructure structure(Case& in) {
  PredictedStructure found;
  const Rigid backbones = frames(in, "backbone_");
  for (std::int64_t layer = 0; layer < backbones.rotation.size(0); ++layer)
    found.backbones.push_back(backbones.select(0, layer));
  found.groups = frames(in, "group_");
  found.angles = in.input("angles");
  found.rawAngles = in.input("raw_angles");
  found.positions = in.input("positions");
  return found;
}

Masks masks(Case& in) {
  return {in.input("msa_mask"), in.input("pair_mask")};
}

Representations representations(Case& in) {
  return {in.input("m"), in.input("z")};
}

Results ofRepresentations(const Representations& x) {
  return {{"m", x.m}, {"z", x.z}};
}

Results ofStructure(const PredictedStructure& x) {
  return {{"positions", x.positions},
          {"angles", x.angles},
          {"raw_angles", x.rawAngles},
          {"single", x.single},
          {"group_rotations", x.groups.rotation},
          {"group_translations", x.groups.translation},
          {"rotations", stack(x.backbones).rotation},
          {"translations", stack(x.backbones).translation}};
}

Results alphaFold(Case& in) {
  AlphaFold model = in.load(AlphaFold(in.config));
  const std::vector<Inputs> passes = {in.inputs("0."), in.inputs("1.")};
  const Outputs out = model(passes);
  Results all = ofStructure(out.structure);
  all.merge(Results{{"lddt", out.predictions.lddt},
                    {"distogram", out.predictions.distogram},
                    {"masked_msa", out.predictions.maskedMsa},
                    {"resolved", out.predictions.resolved},
                    {"aligned_error", out.predictions.alignedError}});
  return all;
}

using Runs = std::map<std::string, Run>;

Runs embedderRuns() {
  return {
      {"rigid",
       [](Case& in) {
         const Rigid made = Rigid::fromThreePoints(in.input("a"), in.input("b"), in.input("c"));
         const Rigid moved = made.compose(Rigid::fromUpdate(in.input("update")));
         const Tensor points = in.input("points");
         return Results{{"rotation", moved.rotation},
                        {"translation", moved.translation},
                        {"applied", moved.apply(points)},
                        {"inverse", moved.invertApply(points)},
                        {"matrix", Rigid::fromMatrix(moved.matrix()).matrix()}};
       }},
      {"input_embedder",
       [](Case& in) {
         Inputs inputs = in.inputs();
         inputs.targetFeat = in.input("target_feat");
         inputs.msaFeat = in.input("msa_feat");
         return ofRepresentations(in.load(InputEmbedder(in.config))(inputs));
       }},
      {"recycling_embedder",
       [](Case& in) {
         const Recycled before = {in.input("before_m"), in.input("before_z"),
                                  in.input("positions")};
         return ofRepresentations(
             in.load(RecyclingEmbedder(in.config))(representations(in), before));
       }},
      {"template_features",
       [](Case& in) {
         const Inputs all = in.inputs();
         return Results{
             {"pair", templatePairFeatures(all, in.config.templateBins, in.config.aminoAcids,
                                           in.config.templateUnitVectors)[1]},
             {"angle", templateAngleFeatures(all, in.config.aminoAcids)}};
       }},
      {"template_embedder",
       [](Case& in) {
         return ofRepresentations(in.load(TemplateEmbedder(in.config))(in.inputs(), in.input("z"),
                                                                       in.input("pair_mask")));
       }},
      {"template_pair_stack", [](Case& in) { return masked(in, TemplatePairStack(in.config)); }},
      {"template_pointwise", [](Case& in) {
         return Results{{"y", in.load(TemplatePointwiseAttention(in.config))(
                                  in.input("t"), in.input("z"), in.input("mask"))}};
       }}};
}

Runs blockRuns() {
  return {
      {"msa_row",
       [](Case& in) {
         const ModelConfig& c = in.config;
         return Results{{"y", in.load(MsaRowAttention(c.msa, c.pair, c.msaHeads, c.msaHead))(
                                  in.input("m"), in.input("z"), in.input("mask"))}};
       }},
      {"msa_column",
       [](Case& in) {
         return masked(in,
                       MsaColumnAttention(in.config.msa, in.config.msaHeads, in.config.msaHead));
       }},
      {"msa_global_column",
       [](Case& in) {
         return masked(in, MsaGlobalColumnAttention(in.config.extraMsa, in.config.msaHeads,
                                                    in.config.extraHead));
       }},
      {"transition",
       [](Case& in) {
         return Results{
             {"y", in.load(Transition(in.config.msa, in.config.transition))(in.input("x"))}};
       }},
      {"outer_product_mean",
       [](Case& in) {
         return masked(in, OuterProductMean(in.config.msa, in.config.pair, in.config.outerProduct));
       }},
      {"triangle_outgoing",
       [](Case& in) {
         return masked(in,
                       TriangleMultiplication(in.config.pair, in.config.triangle, Sides::outgoing));
       }},
      {"triangle_incoming",
       [](Case& in) {
         return masked(in,
                       TriangleMultiplication(in.config.pair, in.config.triangle, Sides::incoming));
       }},
      {"triangle_starting",
       [](Case& in) {
         return masked(in, TriangleAttention(in.config.pair, in.config.pairHeads,
                                             in.config.pairHead, Node::starting));
       }},
      {"triangle_ending",
       [](Case& in) {
         return masked(in, TriangleAttention(in.config.pair, in.config.pairHeads,
                                             in.config.pairHead, Node::ending));
       }},
      {"extra_msa_stack",
       [](Case& in) {
         return Results{{"z", in.load(ExtraMsaStack(in.config))(representations(in), masks(in))}};
       }},
      {"evoformer", [](Case& in) {
         const Trunk out = in.load(Evoformer(in.config))(representations(in), masks(in));
         return Results{{"m", out.m}, {"z", out.z}, {"s", out.s}};
       }}};
}

Runs structureRuns() {
  return {{"ipa",
           [](Case& in) {
             return Results{{"y", in.load(InvariantPointAttention(in.config))(
                                      in.input("s"), in.input("z"), frames(in), in.input("mask"))}};
           }},
          {"all_atom",
           [](Case& in) {
             const Tensor aatype = in.input("aatype");
             const Rigid groups = groupFrames(frames(in), in.input("angles"), aatype);
             return Results{{"rotation", groups.rotation},
                            {"translation", groups.translation},
                            {"positions", atomPositions(groups, aatype)},
                            {"beta", pseudoBeta(atomPositions(groups, aatype), aatype)}};
           }},
          {"structure_module",
           [](Case& in) {
             return ofStructure(in.load(StructureModule(in.config))(
                 in.input("s"), in.input("z"), in.input("aatype"), in.input("mask")));
           }},
          {"heads",
           [](Case& in) {
             const HeadInputs read = {in.input("m"), in.input("z"), in.input("s"),
                                      in.input("structure")};
             const Predictions out = in.load(Heads(in.config))(read);
             return Results{{"lddt", out.lddt},
                            {"distogram", out.distogram},
                            {"masked_msa", out.maskedMsa},
                            {"resolved", out.resolved},
                            {"aligned_error", out.alignedError},
                            {"lddt_mean", lddtOf(out.lddt)}};
           }},
          {"alphafold", alphaFold}};
}

Runs lossRuns() {
  return {
      {"fape",
       [](Case& in) {
         const PointsInFrames predicted = {frames(in), in.input("points")};
         const PointsInFrames truth = {frames(in, "true_"), in.input("true_points")};
         return Results{{"y", fape(predicted, truth, in.input("frame_mask"), in.input("point_mask"),
                                   in.input("clamped"))}};
       }},
      {"structure_losses",
       [](Case& in) {
         const PredictedStructure found = structure(in);
         const Inputs truth = in.inputs();
         const Renamed names = renamed(found.positions.detach(), truth);
         return Results{{"swapped", names.swapped},
                        {"backbone", backboneFape(found, truth)},
                        {"sidechain", sidechainFape(found, names, truth)},
                        {"torsion", torsionLoss(found, truth)}};
       }},
      {"violations",
       [](Case& in) {
         const Violations found = violations(in.input("positions"), in.inputs());
         return Results{{"bond", found.bond},
                        {"angle_ca_c_n", found.angleCaCN},
                        {"angle_c_n_ca", found.angleCNCa},
                        {"clash", found.clash}};
       }},
      {"bounds",
       [](Case& in) {
         const AtomTables& tables = atomTablesLike(in.input("like"));
         return Results{{"lowest", tables.lowest}, {"highest", tables.highest}};
       }},
      {"head_losses",
       [](Case& in) {
         const PredictedStructure found = structure(in);
         const Inputs truth = in.inputs();
         return Results{
             {"distogram", distogramLoss(in.input("distogram"), truth)},
             {"masked_msa", maskedMsaLoss(in.input("masked_msa"), truth)},
             {"lddt", lddtLoss(in.input("lddt"), found, truth)},
             {"resolved", resolvedLoss(in.input("resolved"), truth)},
             {"aligned_error", alignedErrorLoss(in.input("aligned_error"), found, truth)}};
       }},
      {"losses",
       [](Case& in) {
         Outputs outputs;
         outputs.structure = structure(in);
         outputs.predictions = {in.input("lddt"), in.input("distogram"), in.input("masked_msa"),
                                in.input("resolved"), in.input("aligned_error")};
         return Results{
             {"initial", losses(outputs, in.inputs(), LossConfig::named("initial")).total},
             {"finetune", losses(outputs, in.inputs(), LossConfig::named("finetune")).total}};
       }},
      {"metrics", [](Case& in) {
         const Tensor x = in.input("positions"), truth = in.input("truth"), mask = in.input("mask");
         const Metrics found = metrics(x, truth, mask);
         return Results{{"lddt", lddt(x, truth, mask)}, {"lddt_mean", found.lddt},
                        {"drmsd", found.drmsd},         {"gdt_ts", found.gdtTs},
                        {"gdt_ha", found.gdtHa},        {"superposed", superposed(x, truth, mask)}};
       }}};
}

Runs allRuns() {
  Runs all;
  for (Runs some : {embedderRuns(), blockRuns(), structureRuns(), lossRuns()})
    all.merge(some);
  return all;
}

void run(const char* from, const char* to) {
  Case in(from);
  const Runs runs = allRuns();
  const auto found = runs.find(in.module());
  if (found == runs.end())
    models::fail(ErrorKind::input, "there is no module '{}'", in.module());
  in.finish(found->second(in), to);
}

} // namespace
} // namespace kiln::alphafold

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: alphafold_parity IN OUT\n";
    return 2;
  }
  try {
    kiln::alphafold::run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

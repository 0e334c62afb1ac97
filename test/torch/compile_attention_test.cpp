// kiln::compile and kiln::fuse take attention that is written out: each spelling of the formula
// beside the formula itself in fp64, with gradients; and what is left as it is written, and why.
#include "test/torch/CompileHelpers.h"

#include <ATen/core/grad_mode.h>
#include <functional>
#include <limits>

namespace kiln::test::capture {

namespace {

/// How attention of q, k [2, 3, s, 8], v [2, 3, t, 6], a bias [3, s, t] and a mask [2, 1, s, t],
/// true where a key is seen, may be written.
using Formula = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& bias, const Tensor& mask)>;
struct Spelling {
  const char* name;
  Formula formula;
};

constexpr double kScale = 0.35;
const at::Scalar kNever = -std::numeric_limits<double>::infinity();

Tensor scoresOf(const Tensor& q, const Tensor& k) {
  return at::matmul(q, k.transpose(-2, -1));
}
Tensor softmaxOf(const Tensor& scores) {
  return at::softmax(scores, -1);
}
at::ScalarType wideOf(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}
Tensor rowsOf(const Tensor& x) { // [batch heads, rows, width]
  return x.reshape({-1, x.size(-2), x.size(-1)});
}

#define FORMULA(...)                                                                               \
  [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b, const Tensor& m) {        \
    __VA_ARGS__                                                                                    \
  }

const Spelling kSpellings[] = {
    {"no scale", FORMULA(return at::matmul(softmaxOf(scoresOf(q, k)), v);)},
    {"scale behind the product",
     FORMULA(return at::matmul(softmaxOf(scoresOf(q, k) * kScale + b), v);)},
    {"divided", FORMULA(return at::matmul(softmaxOf(scoresOf(q, k) / 2.5 + b), v);)},
    {"scale of the query", FORMULA(return at::matmul(softmaxOf(scoresOf(q * kScale, k) + b), v);)},
    {"query divided", FORMULA(return at::matmul(softmaxOf(scoresOf(q / 2.5, k)), v);)},
    {"scale in place",
     FORMULA(Tensor s = scoresOf(q, k); s.mul_(kScale).add_(b);
             s.masked_fill_(m.logical_not(), kNever); return at::matmul(s.softmax(-1), v);)},
    {"permuted key", FORMULA(return at::matmul(q, k.permute({0, 1, 3, 2})).softmax(-1).matmul(v);)},
    {"mT", FORMULA(return at::matmul(q, k.mT()).mul(kScale).softmax(3).matmul(v);)},
    {"a key that lies transposed",
     FORMULA(return at::matmul(q, k.transpose(-2, -1).contiguous()).softmax(-1).matmul(v);)},
    {"bmm", FORMULA(const Tensor s = at::bmm(rowsOf(q) * kScale, rowsOf(k).transpose(1, 2));
                    return at::bmm(softmaxOf(s), rowsOf(v)).view({2, 3, q.size(2), 6});)},
    {"bmm, masked with heads",
     FORMULA(const Tensor s = at::bmm(rowsOf(q), rowsOf(k).transpose(1, 2));
             const Tensor masked = (s.view({2, 3, q.size(2), k.size(2)}) * kScale + b)
                                       .masked_fill(m.logical_not(), kNever);
             return at::bmm(softmaxOf(masked.view({6, q.size(2), k.size(2)})), rowsOf(v))
                 .view({2, 3, q.size(2), 6});)},
    {"baddbmm",
     FORMULA(const Tensor heads = b.repeat({2, 1, 1});
             const Tensor s = at::baddbmm(heads, rowsOf(q), rowsOf(k).transpose(1, 2), 1, kScale);
             return at::bmm(softmaxOf(s), rowsOf(v)).view({2, 3, q.size(2), 6});)},
    {"baddbmm of nothing",
     FORMULA(const Tensor none = at::empty({6, q.size(2), k.size(2)}, q.options());
             const Tensor s = at::baddbmm(none, rowsOf(q), rowsOf(k).transpose(1, 2), 0, kScale);
             return at::bmm(softmaxOf(s), rowsOf(v)).view({2, 3, q.size(2), 6});)},
    {"einsum", FORMULA(const Tensor s = at::einsum("bhqd,bhkd->bhqk", {q, k});
                       return at::einsum("bhqk,bhkd->bhqd", {softmaxOf(s * kScale + b), v});)},
    {"einsum of rows before heads",
     FORMULA(const Tensor s =
                 at::einsum("bqhd, bkhd -> bhqk", {q.transpose(1, 2), k.transpose(1, 2)});
             const Tensor y = at::einsum("bhqk,bkhd->bqhd", {softmaxOf(s + b), v.transpose(1, 2)});
             return y.transpose(1, 2);)},
    {"einsum with dots, key first",
     FORMULA(const Tensor s = at::einsum("...kd,...qd->...qk", {k, q});
             return at::einsum("...kd,...qk->...qd", {v, softmaxOf(s* kScale)});)},
    {"bias first", FORMULA(return at::matmul(softmaxOf(b + scoresOf(q, k) * kScale), v);)},
    {"bias taken away", FORMULA(return at::matmul(softmaxOf(scoresOf(q, k) - b), v);)},
    {"a multiple of the bias",
     FORMULA(return at::matmul(softmaxOf(at::add(scoresOf(q, k), b, 0.5)), v);)},
    {"two biases", FORMULA(const Tensor far = (m.to(q.scalar_type()) - 1) * 1e9;
                           return at::matmul(softmaxOf(scoresOf(q, k) + far + b), v);)},
    {"masked_fill with the lowest number",
     FORMULA(const Tensor s = (scoresOf(q, k) * kScale + b).masked_fill(m.logical_not(), -3e38);
             return at::matmul(softmaxOf(s), v);)},
    {"masked_fill with -1e9",
     FORMULA(return at::matmul(softmaxOf(scoresOf(q, k).masked_fill(m == 0, -1e9)), v);)},
    {"where",
     FORMULA(return at::matmul(softmaxOf(at::where(m, scoresOf(q, k) * kScale, -1e9)), v);)},
    {"where with a tensor",
     FORMULA(const Tensor never = at::full({}, -1e9, q.options());
             return at::matmul(softmaxOf(at::where(m, scoresOf(q, k), never)), v);)},
    {"where it is hidden",
     FORMULA(return at::matmul(softmaxOf(at::where(m.logical_not(), -1e9, scoresOf(q, k))), v);)},
    {"two masks",
     FORMULA(const Tensor before = at::ones({q.size(2), k.size(2)}, at::kBool).tril(1);
             const Tensor s = scoresOf(q, k).masked_fill(before.logical_not(), kNever);
             return at::matmul(softmaxOf(s.masked_fill(m.logical_not(), kNever)), v);)},
    {"a causal mask that is added",
     FORMULA(const Tensor never = at::full({q.size(2), k.size(2)}, -1e9, q.options()).triu(1);
             return at::matmul(softmaxOf(scoresOf(q, k) * kScale + never), v);)},
    {"softmax of another dtype",
     FORMULA(const Tensor p = at::softmax(scoresOf(q, k) * kScale, -1, wideOf(q));
             return at::matmul(p.to(q.scalar_type()), v);)},
    {"key and values of one head",
     FORMULA(const Tensor s = at::matmul(q, k.narrow(1, 0, 1).transpose(-2, -1)) * kScale;
             return at::matmul(softmaxOf(s + b), v.narrow(1, 1, 1));)},
    {"dropout of an evaluation",
     FORMULA(return at::matmul(at::dropout(softmaxOf(scoresOf(q, k) + b), 0.5, false), v);)},
};

/// q, k, v, bias; every query of the mask sees a key.
struct Sample {
  explicit Sample(std::int64_t s = 5, std::int64_t t = 7) {
    given = {numbers({2, 3, s, 8}), numbers({2, 3, t, 8}), numbers({2, 3, t, 6}),
             numbers({3, s, t})};
    mask = at::rand({2, 1, s, t}) > 0.4;
    mask.select(-1, 0).fill_(true);
  }
  Tensors given;
  Tensor mask;
};

Tensors leavesOf(const Tensors& given, at::ScalarType type) {
  Tensors leaves;
  for (const Tensor& one : given)
    leaves.push_back(one.detach().to(type, false, /*copy=*/true).requires_grad_());
  return leaves;
}

/// The result and the gradients of all that is given, in fp64; zeros where there is none.
Tensors all(const auto& f, const Tensors& given, const Tensor& mask, at::ScalarType type) {
  const Tensors leaves = leavesOf(given, type);
  const Tensor y = f(leaves[0], leaves[1], leaves[2], leaves[3], mask);
  const Tensor dy = at::linspace(-1, 1.5, y.numel()).view(y.sizes()).to(y.scalar_type());
  Tensors made = torch::autograd::grad({y}, leaves, {dy}, {}, false, /*allow_unused=*/true);
  made.insert(made.begin(), y.detach());
  for (std::size_t i = 0; i < made.size(); ++i)
    made[i] =
        made[i].defined() ? made[i].to(at::kDouble) : at::zeros_like(leaves[i - 1], at::kDouble);
  return made;
}

void expectNear(const Tensors& ours, const Tensors& exact, double tolerance, const char* what) {
  for (std::size_t i = 0; i < exact.size(); ++i) {
    ASSERT_EQ(ours[i].sizes(), exact[i].sizes()) << what;
    EXPECT_LE((ours[i] - exact[i]).abs().max().item<double>(),
              tolerance * (0.1 + exact[i].abs().max().item<double>()))
        << what << ", tensor " << i;
  }
}

/// kiln::fuse of a formula, which must live as long.
auto fusedOf(const Formula& formula, const char* name) {
  return fuse([&formula](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b,
                         const Tensor& m) { return formula(q, k, v, b, m); },
              onHost(name));
}

TEST(CompileAttention, EachSpellingIsNearFp64) {
  at::manual_seed(1);
  for (const auto& [name, formula] : kSpellings) {
    const auto compiled = fusedOf(formula, "spelled");
    for (const auto& [s, t] : {std::pair(5, 7), {6, 6}}) {
      const Sample sample(s, t);
      expectNear(all(compiled, sample.given, sample.mask, at::kFloat),
                 all(formula, sample.given, sample.mask, at::kDouble), 1e-5, name);
    }
    EXPECT_EQ(attentionsOf(compiled.untyped()), 2) << name << "\n" << compiled.report();
    EXPECT_TRUE(compiled.untyped().refusals().empty()) << name << "\n" << compiled.report();
  }
}

TEST(CompileAttention, EachSpellingRunsOnKernels) {
  at::manual_seed(2);
  enable(strictOnCpu());
  const auto leave = [](void*) { disable(); };
  const std::unique_ptr<void, decltype(leave)> enabled(this, leave);
  for (const auto& [name, formula] : kSpellings) {
    const auto before = callsByKiln("scaled_dot_product_attention"),
               backward = callsByKiln("attention_backward");
    const auto compiled = fusedOf(formula, "routed");
    const Sample sample;
    const Tensors exact = [&] {
      const Guard off(Mode::off);
      return all(formula, sample.given, sample.mask, at::kDouble);
    }();
    expectNear(all(compiled, sample.given, sample.mask, at::kFloat), exact, 1e-5, name);
    EXPECT_GT(callsByKiln("scaled_dot_product_attention"), before) << name;
    EXPECT_GT(callsByKiln("attention_backward"), backward) << name;
  }
  EXPECT_TRUE(reports("scaled_dot_product_attention"));
}

/// What is none, or cannot run as one: by why it is left as it is written.
const Spelling kOthers[] = {
    {"its scores are used elsewhere",
     FORMULA(const Tensor s = scoresOf(q, k) + b; return at::matmul(softmaxOf(s), v) + s.mean();)},
    {"its probabilities are used elsewhere", FORMULA(const Tensor p = softmaxOf(scoresOf(q, k));
                                                     return at::matmul(p, v) + p.square().sum();)},
    {"its softmax is not along the last dimension",
     FORMULA(return at::matmul(at::softmax(scoresOf(q, k) + b, -2), v);)},
    {"what is added to its scores has another shape",
     FORMULA(return at::matmul(softmaxOf(scoresOf(q, k) + b.view({3, 1, 1, 5, 7})), v);)},
    {"its mask is not broadcast to its scores",
     FORMULA(const Tensor more = m.logical_not().unsqueeze(0).expand({3, 2, 1, 5, 7});
             return at::matmul(softmaxOf(scoresOf(q, k).masked_fill(more, -1e9)), v);)},
    {"its scores are scaled behind a bias or a mask",
     FORMULA(return at::matmul(softmaxOf((scoresOf(q, k) + b) * kScale), v);)},
    {"its scale is -0.35, it must be above 0",
     FORMULA(return at::matmul(softmaxOf(scoresOf(q, k) * -kScale + b), v);)},
    {"its scores are scaled by a tensor",
     FORMULA(return at::matmul(softmaxOf(scoresOf(q, k) * b.exp()), v);)},
    {"its mask sets scores to -5, at most -10000 hides a key",
     FORMULA(return at::matmul(softmaxOf(scoresOf(q, k).masked_fill(m.logical_not(), -5)), v);)},
    {"or something is added behind them",
     FORMULA(
         return at::matmul(softmaxOf(scoresOf(q, k).masked_fill(m.logical_not(), -1e9) + b), v);)},
    {"what is added to its scores is Long",
     FORMULA(return at::matmul(softmaxOf(scoresOf(q, k) + m.to(at::kLong)), v);)},
    {"its scores go through aten::tanh",
     FORMULA(return at::matmul(softmaxOf(at::tanh(scoresOf(q, k)) * 3), v);)},
    {"its probabilities go through aten::mul",
     FORMULA(return at::matmul(softmaxOf(scoresOf(q, k)) * m, v);)},
    {"its values are more than the probabilities",
     FORMULA(return at::matmul(softmaxOf(scoresOf(q[0], k[0])), v);)},
    {"its scores are an argument", FORMULA(return at::matmul(softmaxOf(b), v);)},
    {"heads wider than 256", FORMULA(return at::matmul(softmaxOf(scoresOf(q.repeat({1, 1, 1, 40}),
                                                                          k.repeat({1, 1, 1, 40}))),
                                                       v);)},
    {"aten::sub is among them", FORMULA(Tensor s = scoresOf(q, k); {
       const at::NoGradGuard off;
       s = s - s.detach().amax(-1, true);
     } return at::matmul(softmaxOf(s), v) + q.mean() + k.mean();)},
};

TEST(CompileAttention, OthersAreLeftAsTheyAreWritten) {
  at::manual_seed(3);
  for (const auto& [why, formula] : kOthers) {
    const auto compiled = fusedOf(formula, "others");
    const Sample sample;
    expectNear(all(compiled, sample.given, sample.mask, at::kFloat),
               all(formula, sample.given, sample.mask, at::kDouble), 1e-4, why);
    EXPECT_EQ(attentionsOf(compiled.untyped()), 0) << why << "\n" << compiled.report();
    EXPECT_TRUE(compiled.untyped().refusals().empty()) << why << "\n" << compiled.report();
    const bool looksLikeOne = std::string(why) != "its scores are an argument";
    if (looksLikeOne) {
      EXPECT_NE(compiled.report().find(why), std::string::npos) << why << "\n" << compiled.report();
    }
  }
}

TEST(CompileAttention, TypesThatItDoesNotTakeAreLeft) {
  const auto f = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return at::matmul(softmaxOf(scoresOf(q, k)), v);
  };
  const Tensor x = numbers({2, 5, 8}).to(at::kDouble);
  const auto compiled = compile(f, {x, x, x}, onHost("double"));
  EXPECT_EQ(attentionsOf(compiled.untyped()), 0);
  EXPECT_NE(
      compiled.report().find("no attention: matmul, softmax, matmul: a dtype other than fp32"),
      std::string::npos)
      << compiled.report();
  EXPECT_TRUE(at::equal(compiled(x, x, x), f(x, x, x)));
}

} // namespace

} // namespace kiln::test::capture

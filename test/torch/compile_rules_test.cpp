// kiln::compile: what it refuses and why, what is compared at each call, what is in no kernel, and
// how calls of other kinds and from several threads are told apart.
#include "test/torch/CompileHelpers.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <thread>

namespace kiln::test::capture {

namespace {

/// Why the function runs instead.
std::string whyRefused(const auto& f, const Tensor& x) {
  const auto compiled = compile(f, x, onHost("refused"));
  expectClose(compiled(x.detach()), f(x.detach()), "refused");
  const auto refusals = compiled.untyped().refusals();
  return refusals.empty() ? "" : refusals[0].first;
}

TEST(Compile, RefusesWhatItCannotDoRight) {
  const Tensor x = numbers({4, 8});
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text << "; not: " << part;
  };
  const Tensor outside = at::zeros({8});
  has(whyRefused([&](const Tensor& t) { return outside.zero_().add_(1) + t.relu(); }, x),
      "aten::zero_ writes into an argument or a tensor from outside");
  const Tensor weight = numbers({8}).requires_grad_();
  has(whyRefused([&](const Tensor& t) { return (t * weight).sum().backward(), t * 2; }, x),
      "it runs a backward");
  has(whyRefused([](const Tensor& t) { return t.detach().requires_grad_() * 2; }, x),
      "past the dispatcher (requires_grad_(), a custom autograd function)");
  static const auto twice =
      fuse([](Expr a) { return a * 2; }, {.name = "twice", .place = Place::cpu});
  has(whyRefused([](const Tensor& t) { return twice(t) + 1; }, x), "made past the dispatcher");
  const Tensor mean = at::zeros({8}), variance = at::ones({8});
  const auto normalize = [&](const Tensor& t) {
    return at::batch_norm(t, {}, {}, mean, variance, true, 0.1, 1e-5, false);
  };
  has(whyRefused(normalize, x), "changes running statistics");
  has(whyRefused([](const Tensor& t) { return at::empty_like(t).set_data(t), t.data().relu() + t; },
                 x),
      "");
  const Tensor history = at::ones({8}).requires_grad_() * 2;
  has(whyRefused([&](const Tensor& t) { return t + history; }, x), "with history");
  const auto switches = [](const Tensor& t) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const Tensor y = t.relu();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    return y + 1;
  };
  has(whyRefused(switches, x), "autocast");
}

TEST(Compile, ValuesThatWereReadAreComparedAtEachCall) {
  const auto f = [](const Tensor& x) {
    return x.sum().item<float>() > 0 ? x.relu() * 2 : x.sigmoid() - 3;
  };
  const Tensor x = at::ones({4, 8});
  const auto compiled = compile(f, x, onHost("values"));
  EXPECT_EQ(usedOf(compiled.untyped()), "[relu, mul]") << compiled.report();
  expectClose(compiled(x), f(x), "as it was");
  EXPECT_TRUE(compiled.untyped().refusals().empty());
  expectClose(compiled(-x), f(-x), "the other way");
  ASSERT_EQ(compiled.untyped().refusals().size(), 1);
  EXPECT_NE(compiled.report().find("a value that the function reads was another one"),
            std::string::npos);
}

TEST(Compile, ShapesThatDependOnValuesAreComparedToo) {
  const auto f = [](const Tensor& x) { return x.masked_select(x > 0).relu() * 2; };
  const Tensor x = at::linspace(-1, 1, 32).view({4, 8});
  const auto compiled = compile(f, x, onHost("selected"));
  EXPECT_EQ(usedOf(compiled.untyped()), "[relu, mul]") << compiled.report();
  for (const Tensor& other : {x, -x + 0.01, x + 0.5})
    expectClose(compiled(other), f(other), "selected");
  EXPECT_EQ(compiled.untyped().refusals().size(), 1);
}

TEST(Compile, TellsWhyAnOperationIsInNoKernel) {
  const auto textOf = [](const auto& f, const Tensor& x, Place place = Place::cpu) {
    CaptureOptions options = onHost("why");
    options.place = place;
    const auto compiled = compile(f, x, options);
    EXPECT_EQ(usedOf(compiled.untyped()).find('['), std::string::npos);
    expectClose(compiled(x), f(x), "as ATen");
    return compiled.report();
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const Tensor x = numbers({4, 8});
  const auto chain = [](const Tensor& t) { return t.relu() * 2; };
  has(textOf(chain, x, Place::gpu), "tensors that are not on a GPU");
  has(textOf(chain, x.to(at::kDouble)), "results of dtype Double");
  has(textOf(chain, at::zeros({})), "a tensor without dimensions");
  has(textOf(chain, at::zeros({3, 0})), "an empty tensor");
  has(textOf(chain, x.t()), "its result is not contiguous");
  has(textOf([](const Tensor& t) { return at::softmax(t, 0); }, x), "along the last dimension");
  has(textOf([](const Tensor& t) { return t.relu(); }, x), "one operation alone");
  has(textOf([](const Tensor& t) { return t.cumsum(1); }, x), "no operation of rows");
  has(textOf([](const Tensor& t) { return t.to(at::kLong); }, x), "a cast to Long");
}

TEST(Compile, ArgumentsAreToldApart) {
  const Tensor weight = numbers({8}).requires_grad_();
  const auto f = [&](const Tensor& a, const Tensor& b) { return (a - b).exp() * weight; };
  const Tensor x = numbers({8}), y = numbers({8});
  const auto compiled = compile(f, {weight, weight}, onHost("apart"));
  const Tensor other = y.clone().requires_grad_(), more = x.clone().requires_grad_();
  expectClose(compiled(other, more).detach(), f(other, more).detach(), "others");
  const at::NoGradGuard off;
  expectClose(compiled(x, y), f(x, y), "without gradients");
  EXPECT_FALSE(compiled(x, y).requires_grad());
  EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
}

TEST(Compile, CapturedTensorsMayChangeTheirType) {
  Tensor weight = numbers({8});
  const auto f = [&](const Tensor& x) { return (x * weight).relu() + 1; };
  const Tensor x = numbers({4, 8});
  const auto compiled = compile(f, x, onHost("changed"));
  weight.set_data(numbers({4, 8}));
  expectClose(compiled(x), f(x), "captured again");
  for (int i = 0; i < 20; ++i) { // two kinds of captures, not twenty
    weight.requires_grad_(i % 2 == 0);
    EXPECT_EQ(compiled(x).requires_grad(), i % 2 == 0);
  }
  EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
}

TEST(Compile, KindsAreBounded) {
  const auto f = [](const Tensor& x) { return x.cumsum(0); };
  const auto compiled = compile(f, at::ones({1}), onHost("bounded"));
  for (int i = 2; i < 20; ++i)
    expectClose(compiled(at::ones({i})), f(at::ones({i})), "kind");
  const auto refusals = compiled.untyped().refusals();
  ASSERT_EQ(refusals.size(), 1);
  EXPECT_EQ(refusals[0],
            std::pair(std::string("16 kinds of arguments had been captured"), std::uint64_t(3)));
}

TEST(Compile, CallsItselfFromSeveralThreadsAndWithinOthers) {
  const auto inner =
      compile([](const Tensor& x) { return x.relu() * 2 + 1; }, numbers({4, 8}), onHost("inner"));
  const auto f = [&](const Tensor& x) { return inner(x).sigmoid() - x; };
  const auto compiled = compile(f, numbers({4, 8}), onHost("outer"));
  EXPECT_EQ(usedOf(compiled.untyped()), "[relu, mul, add, sigmoid, sub]") << compiled.report();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        const Tensor x = at::full({4 + k % 2, 8}, k);
        EXPECT_TRUE(at::allclose(compiled(x), at::sigmoid(x.relu() * 2 + 1) - x, 1e-4, 1e-5));
      }
    });
  for (std::thread& thread : threads)
    thread.join();
}

TEST(Compile, Errors) {
  const auto f = [](const Tensor& x) { return x.view({3, 5}) + 1; };
  EXPECT_THROW(compile(f, at::ones({4}), onHost("bad")), c10::Error); // the function's own
  const auto compiled = compile(f, at::ones({15}), onHost("fine"));
  EXPECT_THROW(compiled(at::ones({16})), c10::Error);
  EXPECT_EQ(compiled(at::ones({15})).numel(), 15);
  try {
    compiled(Tensor());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    EXPECT_STREQ(error.what(), "fine: argument 0 is undefined; give a tensor");
  }
  EXPECT_THROW(CompiledFunction({}, {at::ones({1})}), Error);
}

} // namespace

} // namespace kiln::test::capture

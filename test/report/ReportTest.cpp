// Reports: each figure comes from the row that it should, in every format, and nothing that a label
// holds can break one.
#include "autotune/report/Report.h"
#include "autotune/Label.h"
#include "autotune/report/Rejections.h"
#include "test/store/Rows.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cstdlib>

using testing::HasSubstr;
using testing::Not;

namespace kiln::autotune {
namespace {

/// A key for which 12 schedules were timed. The model's order is that of their numbers; `ratios`
/// are to the default, which is the first.
void search(Store& store, const Key& key, const std::string& label,
            const std::vector<double>& ratios, std::size_t chosen, double standard = 20) {
  store.describe(key, label, "func.func");
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    const std::string schedule = "schedule " + std::to_string(i);
    Artifact artifact = artifactOf(label + schedule);
    store.keep(key, schedule, artifact);
    store.judge(key, verdictOf(artifact, schedule, true));
    Measurement m = measurementOf(schedule, artifact.sha256, standard * ratios[i]);
    m.ratio = ratios[i];
    m.ratioLow = ratios[i] - 0.01;
    m.ratioHigh = ratios[i] + 0.01;
    m.place = static_cast<int>(i);
    m.predicted = 18 + static_cast<double>(i);
    store.measure(key, m);
  }
  const std::string schedule = "schedule " + std::to_string(chosen);
  store.choose(key, choiceOf(schedule, artifactOf(label + schedule).sha256, Source::measured));
  Search found;
  found.feasible = 500;
  found.tried = ratios.size();
  found.standard = "schedule 0";
  found.roofline = standard / 2;
  found.bytes = found.roofline * 4.8e6;
  found.seconds = 60;
  found.reason = "all tried";
  store.searched(key, found);
}

std::unique_ptr<Store> filled() {
  auto store = Store::inMemory();
  search(*store, keyNumber(1), "layer_norm 64x128 bf16", {1, 0.9, 0.8, 0.95}, 2);
  store->copied(keyNumber(1), measurementOf("copy", "", 15));
  store->baseline(keyNumber(1), measurementOf("aten 2.11.0", "", 40));
  store->baseline(keyNumber(1), measurementOf("aten 2.12.0", "", 30));
  // The best lies beyond the model's best eight, and the default is near it.
  search(*store, keyNumber(2), "softmax 8x8", {1, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 0.95}, 9);
  store->choose(keyNumber(3), choiceOf("modelled", "", Source::model));
  store->describe(keyNumber(3), "gate 64", "func.func");
  search(*store, keyNumber(4), "</script><script>fail()</script>|a, \"b\"", {1, 0.98}, 1);
  store->baseline(keyNumber(4), measurementOf("cudnn", "", 5));
  store->choose(keyNumber(4), choiceOf("", "", Source::vendor));
  return store;
}

const Line& lineOf(const Report& report, int number) {
  for (const Line& line : report.lines)
    if (line.key == digest(keyNumber(number)))
      return line;
  throw std::out_of_range("no such key in the report");
}

TEST(Report, FiguresComeFromTheirRows) {
  auto store = filled();
  Report report = reportOf(*store, {});
  ASSERT_EQ(report.lines.size(), 4u);
  const Line& line = lineOf(report, 1);
  EXPECT_EQ(line.label, "layer_norm 64x128 bf16");
  EXPECT_EQ(line.device, "H200, 132 SMs");
  EXPECT_DOUBLE_EQ(line.chosen.middle, 16);
  EXPECT_DOUBLE_EQ(line.chosen.high, 16.05);
  EXPECT_DOUBLE_EQ(line.standard.middle, 20);
  EXPECT_DOUBLE_EQ(line.vendor.middle, 30);
  EXPECT_EQ(line.provider, "aten 2.12.0");
  EXPECT_DOUBLE_EQ(line.copy.middle, 15);
  EXPECT_DOUBLE_EQ(line.speedUp(), 1.25);
  EXPECT_DOUBLE_EQ(line.shareOfRoofline(), 10.0 / 16);
  EXPECT_EQ(line.place, 2);
  EXPECT_DOUBLE_EQ(line.predicted, 20);
  EXPECT_EQ(line.tried, 4);
  EXPECT_DOUBLE_EQ(line.eight, 1);
  EXPECT_DOUBLE_EQ(lineOf(report, 2).eight, 1 / 0.95);
  const Line& model = lineOf(report, 3);
  EXPECT_FALSE(model.chosen.isKnown());
  EXPECT_EQ(model.source, "model");
  EXPECT_DOUBLE_EQ(lineOf(report, 4).chosen.middle, 5); // the vendor's
}

TEST(Report, NamesWhatLimitsARooflineIfItIsNotBytes) {
  auto store = filled();
  Report report = reportOf(*store, {});
  for (const auto& [limit, cell] : {std::pair("", "62 %"), std::pair("bytes", "62 %"),
                                    std::pair("exponentials", "62 % (exponentials)")}) {
    report.lines = {lineOf(reportOf(*store, {}), 1)};
    report.lines[0].rooflineLimit = limit;
    EXPECT_EQ(cells(report.lines[0])[7], cell);
    const std::string json = *limit == 0 ? "null" : '"' + std::string(limit) + '"';
    EXPECT_THAT(render(report, "json"), HasSubstr("\"roofline_limit\": " + json));
    EXPECT_THAT(render(report, "html"), HasSubstr(cell));
    EXPECT_THAT(render(report, "csv"), HasSubstr("," + std::string(limit) + ",4.8e+07,"));
  }
}

TEST(Report, BestSoFarOnlyFalls) {
  auto store = filled();
  // What is timed after it is no part of the search.
  store->measure(keyNumber(1), measurementOf("schedule 1", "", 1));
  Report report = reportOf(*store, {});
  const auto& progress = lineOf(report, 1).progress;
  ASSERT_EQ(progress.size(), 3u); // the fourth is slower
  EXPECT_EQ(progress[0], (std::pair<double, double>{0, 20}));
  EXPECT_DOUBLE_EQ(progress[2].second, 16);
  EXPECT_LE(progress[1].first, progress[2].first);
  EXPECT_TRUE(lineOf(report, 3).progress.empty());
}

TEST(Report, LinesTogether) {
  auto store = filled();
  Report report = reportOf(*store, {});
  // Of the three whose ratio is known the default is near the choice of one; the vendor's has none.
  EXPECT_EQ(report.defaultsNearChoice().known, 2u);
  EXPECT_EQ(report.defaultsNearChoice().count, 1u);
  EXPECT_EQ(report.modelsNearBest().known, 3u);
  EXPECT_EQ(report.modelsNearBest().count, 2u);
  EXPECT_EQ(report.fasterThanVendor().known, 2u);
  EXPECT_EQ(report.fasterThanVendor().count, 1u);
  EXPECT_NEAR(report.speedUp(), std::sqrt(1.25 / 0.95), 1e-12);
  Report none = reportOf(*Store::inMemory(), {});
  EXPECT_TRUE(none.lines.empty());
  EXPECT_EQ(none.speedUp(), 0);
  EXPECT_THAT(renderMarkdown(none), HasSubstr("not known of any key"));
}

TEST(Report, TheLastTimeCounts) {
  auto store = filled();
  Measurement later = measurementOf("schedule 2", "", 12);
  later.ratio = 0.6;
  store->measure(keyNumber(1), later);
  Measurement hot = measurementOf("schedule 2", "", 99);
  hot.conditions.throttled = true;
  store->measure(keyNumber(1), hot);
  EXPECT_DOUBLE_EQ(lineOf(reportOf(*store, {}), 1).chosen.middle, 12);
}

TEST(Report, TheModelIsJudgedByTheSearchAlone) {
  auto store = filled();
  Measurement later = measurementOf("schedule 9", "", 12);
  later.ratio = 0.6;
  store->measure(keyNumber(2), later);
  EXPECT_DOUBLE_EQ(lineOf(reportOf(*store, {}), 2).chosen.middle, 12);
  EXPECT_DOUBLE_EQ(lineOf(reportOf(*store, {}), 2).eight, 1 / 0.95);
}

TEST(Report, WhatIsNotWholeDoesNotJudgeTheModel) {
  auto store = filled();
  store->database().script("DELETE FROM measurement WHERE candidate IN (SELECT candidate FROM "
                           "prediction WHERE place = 1)");
  Report report = reportOf(*store, {});
  EXPECT_LT(lineOf(report, 1).eight, 0);
  EXPECT_EQ(report.modelsNearBest().known, 0u);
}

TEST(Report, ANeglectedBestEightCountsAgainstTheModel) {
  auto store = filled();
  store->database().script("UPDATE prediction SET place = place + 100");
  Report report = reportOf(*store, {});
  EXPECT_EQ(lineOf(report, 1).eight, 0);
  EXPECT_EQ(report.modelsNearBest().known, 3u);
  EXPECT_EQ(report.modelsNearBest().count, 0u);
}

TEST(Report, OnlyWhatIsSelected) {
  auto store = filled();
  EXPECT_EQ(reportOf(*store, {{}, {"softmax"}}).lines.size(), 1u);
  EXPECT_TRUE(reportOf(*store, {{"sm_80"}, {}}).lines.empty());
}

TEST(Report, Markdown) {
  auto store = filled();
  std::string text = render(reportOf(*store, {}), "markdown");
  EXPECT_THAT(text, HasSubstr("**H200, 132 SMs** (sm_90a)\n\n| what | µs |"));
  EXPECT_THAT(text, HasSubstr("| layer_norm 64x128 bf16 | 16.00 | 15.95..16.05 | 20.00 | 1.250 | "
                              "30.00 | 15.00 | 62 % | 4 of 500 | measured |"));
  EXPECT_THAT(text, HasSubstr("\\|a")); // a bar in a label ends no cell
  EXPECT_THAT(text, HasSubstr("- default within 1.10 times the choice: 50 % (1 of 2 keys)"));
  EXPECT_THAT(text, HasSubstr("hold a schedule within 3 % of the best: 67 % (2 of 3 keys)"));
}

TEST(Report, Csv) {
  auto store = filled();
  std::string text = render(reportOf(*store, {}), "csv");
  EXPECT_EQ(std::ranges::count(text, '\n'), 5);
  EXPECT_THAT(text, HasSubstr(digest(keyNumber(1)) + ",layer_norm 64x128 bf16,sm_90a,\"H200, "
                                                     "132 SMs\",measured,16,15.95,16.05,20,0.8,"));
  EXPECT_THAT(text, HasSubstr("\"</script><script>fail()</script>|a, \"\"b\"\"\""));
}

TEST(Report, Json) {
  auto store = filled();
  auto json = nlohmann::json::parse(render(reportOf(*store, {}), "json"));
  ASSERT_EQ(json["lines"].size(), 4u);
  EXPECT_EQ(json["summary"]["default_within_1.10_of_choice"]["count"], 1);
  for (const auto& line : json["lines"])
    if (line["source"] == "model") {
      EXPECT_TRUE(line["chosen_us"].is_null());
      EXPECT_TRUE(line["place_by_model"].is_null());
    }
}

/// How often a text is in another.
std::size_t times(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size())
    ++count;
  return count;
}

TEST(Report, Page) {
  auto store = filled();
  store->describe(keyNumber(5), "layer_norm 64x128 bf16 backward", "func.func");
  store->choose(keyNumber(5), choiceOf("modelled", "", Source::model));
  std::string text = render(reportOf(*store, {}), "html");
  for (const char* mark : {"@STYLE@", "@STORE@", "@SUMMARY@", "@GROUPS@", "@DATA@", "@SCRIPT@"})
    EXPECT_THAT(text, Not(HasSubstr(mark)));
  EXPECT_THAT(text, HasSubstr("<h2>H200, 132 SMs (sm_90a)</h2>"));
  EXPECT_EQ(times(text, "<details class=\"group rows\" open>"), 5u);
  EXPECT_THAT(text, HasSubstr("<h3>layer_norm</h3><span class=\"many\">1 kernel</span>"
                              "<span>default 1.25×</span><span>vendor 1.88×</span>"
                              "<span>62 % of roofline</span>"));
  EXPECT_THAT(text, HasSubstr("<h3>layer_norm, backward</h3>"));
  EXPECT_EQ(times(text, "data-direction=\"backward\""), 1u);
  EXPECT_THAT(text,
              HasSubstr("<summary>layer_norm 64x128 bf16</summary><p><code>schedule 2</code>"));
  EXPECT_THAT(text, HasSubstr("<td data-value=\"16\" data-title=\"µs\">16.00</td>"));
  EXPECT_THAT(text,
              HasSubstr("aria-label=\"default 1.25, aten 2.12.0 1.88, plain copy 0.94 times"));
  EXPECT_THAT(render(reportOf(*Store::inMemory(), {}), "html"), HasSubstr("holds no choices"));
  if (const char* path = std::getenv("REPORT_PAGE")) // page_test.py opens it
    std::ofstream(path) << text;
}

/// Whatever a store holds is text on the page, and nothing is fetched for it.
TEST(Report, PageEscapesWhatAStoreHolds) {
  const std::string evil = "x\" onload=\"fail()\"><img src=x>&amp;<!--</script><script>@DATA@";
  Report report;
  report.store = evil;
  Line line;
  line.key = line.label = line.arch = line.device = line.source = line.schedule = line.reason =
      line.provider = evil;
  line.chosen = line.vendor = line.copy = {2, 1, 3};
  report.lines = {line, line};
  report.lines[1].label = "@SCRIPT@ @GROUPS@";
  const std::string text = render(report, "html");
  EXPECT_THAT(text, Not(HasSubstr("<img")));
  EXPECT_THAT(text, Not(HasSubstr("x\" onload")));
  EXPECT_THAT(text, Not(HasSubstr("<!--")));
  EXPECT_EQ(times(text, "<script"), 2u) << "the data and the page's own";
  EXPECT_EQ(times(text, "</script"), 2u);
  EXPECT_THAT(text, HasSubstr("<summary>@SCRIPT@ @GROUPS@</summary>"));
  EXPECT_THAT(text, HasSubstr("content=\"default-src 'none'; style-src 'unsafe-inline'"));
  for (const char* fetching : {" src=", "url(", "@import", "fetch(", "<link", "XMLHttp"})
    EXPECT_THAT(renderHtml({}), Not(HasSubstr(fetching)));
  for (const char* parsing :
       {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("})
    EXPECT_THAT(text, Not(HasSubstr(parsing)));
}

TEST(Report, PageHasASectionForEachDevice) {
  auto store = filled();
  Key other = keyNumber(1);
  other.device = "B200, 148 SMs";
  search(*store, other, "layer_norm 64x128 bf16", {1, 0.9}, 1);
  const std::string text = render(reportOf(*store, {}), "html");
  EXPECT_EQ(times(text, "<section class=\"device\">"), 2u);
  EXPECT_LT(text.find("<h2>B200, 148 SMs (sm_90a)</h2>"),
            text.find("<h2>H200, 132 SMs (sm_90a)</h2>"));
  EXPECT_EQ(times(text, "<h3>layer_norm</h3>"), 2u);
}

TEST(Report, LabelsTellOpsAndDirections) {
  for (const auto& [label, op, backward] :
       {std::tuple("layer_norm 65536x128 bf16", "layer_norm", false),
        std::tuple("layer_norm_bf16_128 65536 backward no_read_ahead", "layer_norm", true),
        std::tuple("dropout_backward_f32_1024 10240", "dropout", true),
        std::tuple("cross_entropy_with_gradient_50304 8192", "cross_entropy_with_gradient", false),
        std::tuple("gate 65536", "gate", false), std::tuple("", "", false),
        std::tuple("128_bf16 7", "128_bf16", false), std::tuple("_ _", "_", false)}) {
    EXPECT_EQ(opOfLabel(label), op);
    EXPECT_EQ(isBackwardLabel(label), backward) << label;
  }
}

TEST(Report, UnknownFormatsAreRefused) {
  std::string text = errorOf(ErrorKind::input, [] { render({}, "pdf"); });
  EXPECT_THAT(text, HasSubstr("'pdf'; known are markdown, csv, json and html"));
}

TEST(Rejections, AreCountedByRuleMostFrequentFirst) {
  RejectionsByRule rejections;
  rejections.add(Rejection{"a", "resources", "the same code, launched alike, as d"});
  rejections.add(Rejection{"b", "resources", "the same code, launched alike, as e"});
  rejections.add(Rejection{"c", "compile", "no memory"});
  rejections.add("threads", 40, "2048 threads");
  rejections.add("threads", 2, "4096 threads");
  const std::vector<kiln::Rejection> list = rejections.list();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].reason, "constraints: threads");
  EXPECT_EQ(list[0].count, 42);
  EXPECT_EQ(list[0].worst, "4096 threads");
  EXPECT_EQ(list[1].reason, "resources: the same code as another");
  EXPECT_EQ(list[1].count, 2);
  EXPECT_EQ(list[1].worst, "b");
  EXPECT_EQ(list[2].reason, "compile: no memory");
}

} // namespace
} // namespace kiln::autotune

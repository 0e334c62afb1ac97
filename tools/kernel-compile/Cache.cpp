// kernel-compile cache: looks into stores of tuned kernels, brings them together and keeps them.
#include "kiln/cache.h"
#include "codegen/backend/FormatPrintable.h"

#include "tools/kernel-compile/Findings.h"
#include "tools/kernel-compile/Kernels.h"
#include "tools/kernel-compile/Progress.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Times.h"
#include "tools/kernel-compile/Verbs.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln::tool {

namespace {

using nlohmann::ordered_json;
using tool::toJson; // of times, beside those below

struct CacheRequest {
  std::string store, file, key, schedule, output, nvrtc;
  std::vector<std::string> stores;
  cache::Filter filter;
  bool json = false, undo = false, stale = false;
};

ordered_json toJson(const cache::Entry& entry) {
  ordered_json json = {{"key", entry.key},         {"label", entry.label},
                       {"arch", entry.arch},       {"device", entry.device},
                       {"tensors", entry.tensors}, {"nvrtc", entry.nvrtc},
                       {"source", entry.source},   {"schedule", entry.schedule},
                       {"cubin", entry.cubin},     {"cubin_bytes", entry.cubinBytes},
                       {"reason", entry.reason},   {"margin", entry.margin}};
  if (entry.time)
    json["time"] = toJson(*entry.time);
  return json;
}

ordered_json toJson(const cache::Difference& difference) {
  ordered_json json = ordered_json::object();
  if (difference.first)
    json["first"] = toJson(*difference.first);
  if (difference.second)
    json["second"] = toJson(*difference.second);
  if (difference.kept)
    json["kept"] = toJson(*difference.kept);
  return json;
}

template <class Item> ordered_json listJson(const std::vector<Item>& items) {
  ordered_json json = ordered_json::array();
  for (const Item& item : items)
    json.push_back(toJson(item));
  return json;
}

std::string tableOf(const std::vector<cache::Entry>& entries) {
  Table table;
  for (const char* title : {"key", "label", "arch", "source"})
    table.column(title, Table::Align::left);
  table.column("us");
  table.column("cubin B");
  table.column("schedule", Table::Align::left);
  for (const cache::Entry& entry : entries)
    table.row({shortName(entry.key), entry.label, entry.arch, entry.source,
               entry.time ? fmt::format("{:.2f}", entry.time->microseconds) : "-",
               grouped(entry.cubinBytes), shortSchedule(entry.schedule)});
  return table.empty() ? "no choices\n" : table.text();
}

std::string sideOf(const std::optional<cache::Entry>& entry) {
  return entry ? fmt::format("{} {}", entry->source, shortSchedule(entry->schedule)) : "-";
}

std::string tableOf(const std::vector<cache::Difference>& differences, const char* third) {
  Table table;
  for (const char* title : {"key", "label", "first", "second"})
    table.column(title, Table::Align::left);
  if (third)
    table.column(third, Table::Align::left);
  for (const cache::Difference& difference : differences) {
    const cache::Entry& any = difference.first ? *difference.first : *difference.second;
    table.row({shortName(any.key), any.label, sideOf(difference.first), sideOf(difference.second),
               sideOf(difference.kept)});
  }
  return table.text();
}

std::string textOf(const cache::Details& details) {
  const cache::Entry& entry = details.entry;
  std::string text = styled(Style::bold, printable(entry.label)) + "\n";
  for (const auto& [name, value] : details.fields)
    text += formatPrintable("  {:<9} {}\n", name, value);
  if (details.chosen)
    text += formatPrintable("chosen: {} {}\n  cubin {} of {} bytes\n  {}; margin {:.1f}%\n",
                            entry.source, entry.schedule, shortName(entry.cubin),
                            grouped(entry.cubinBytes), entry.reason, 100 * entry.margin);
  else
    text += "nothing is chosen yet\n";
  auto times = [&](const char* what, const std::vector<cache::Time>& all) {
    for (const cache::Time& time : all)
      text += formatPrintable("{}: {:.2f} us ({:.2f}..{:.2f}), {:.3f} of the default, {}\n", what,
                              time.microseconds, time.low, time.high, time.ratio, time.schedule);
  };
  times("measured", details.times);
  times("vendor", details.baselines);
  for (const std::string& verdict : details.verdicts)
    text += formatPrintable("verdict: {}\n", verdict);
  for (const std::string& failure : details.failures)
    text += formatPrintable("failure: {}\n", failure);
  for (const auto& [rule, count] : details.rejections)
    text += formatPrintable("rejected: {} by {}\n", grouped(count), rule);
  return text;
}

ordered_json toJson(const cache::Details& details) {
  ordered_json fields = ordered_json::object(), rejections = ordered_json::object();
  for (const auto& [name, value] : details.fields)
    fields[name] = value;
  for (const auto& [rule, count] : details.rejections)
    rejections[rule] = count;
  return {{"choice", details.chosen ? toJson(details.entry) : ordered_json()},
          {"key", details.entry.key},
          {"label", details.entry.label},
          {"fields", fields},
          {"measurements", listJson(details.times)},
          {"baselines", listJson(details.baselines)},
          {"verdicts", details.verdicts},
          {"failures", details.failures},
          {"rejections", rejections}};
}

void tell(const CacheRequest& request, const ordered_json& json, const std::string& text) {
  request.json ? printJson(json) : print(text);
}

int list(const CacheRequest& request) {
  auto entries = cache::list(request.store, request.filter);
  tell(request, {{"choices", listJson(entries)}}, tableOf(entries));
  return 0;
}

int show(const CacheRequest& request) {
  auto details = cache::show(request.store, request.key);
  tell(request, toJson(details), textOf(details));
  return 0;
}

/// As diff does: 1 if there is a difference.
int diff(const CacheRequest& request) {
  auto differences = cache::diff(request.stores[0], request.stores[1]);
  tell(request, {{"differences", listJson(differences)}},
       differences.empty() ? "the same choices\n" : tableOf(differences, nullptr));
  return differences.empty() ? 0 : 1;
}

int tellMerged(const CacheRequest& request, const std::vector<cache::Difference>& conflicts,
               const std::string& result) {
  std::size_t choices = cache::list(result).size();
  tell(request, {{"choices", choices}, {"conflicts", listJson(conflicts)}},
       (conflicts.empty() ? "" : tableOf(conflicts, "kept")) +
           fmt::format("{} choices in {}, {} keys were chosen differently\n", choices, result,
                       conflicts.size()));
  return 0;
}

int merge(const CacheRequest& request) {
  std::vector<std::filesystem::path> stores(request.stores.begin(), request.stores.end());
  return tellMerged(request, cache::merge(stores, request.output), request.output);
}

int import(const CacheRequest& request) {
  return tellMerged(request, cache::import(request.file, request.store), request.store);
}

int exportStore(const CacheRequest& request) {
  std::int64_t choices = cache::exportTo(request.store, request.output, request.filter);
  std::uintmax_t bytes = std::filesystem::file_size(request.output);
  tell(request, {{"choices", choices}, {"bytes", bytes}},
       fmt::format("{} choices in {}, {} bytes\n", choices, request.output,
                   grouped(static_cast<long long>(bytes))));
  return 0;
}

int pin(const CacheRequest& request) {
  if (request.undo) {
    cache::unpin(request.store, request.key);
    tell(request, {{"pinned", nullptr}}, "no longer pinned; tuning may replace it\n");
    return 0;
  }
  cache::Entry entry = cache::pin(request.store, request.key, request.schedule);
  tell(request, {{"pinned", toJson(entry)}},
       formatPrintable("{} {} is pinned to {}\n", shortName(entry.key), entry.label,
                       entry.schedule));
  return 0;
}

int collect(const CacheRequest& request) {
  cache::Collected collected = cache::collect(request.store, request.stale);
  tell(request,
       {{"cubins", collected.cubins},
        {"keys", collected.keys},
        {"bytes_before", collected.bytesBefore},
        {"bytes_after", collected.bytesAfter}},
       fmt::format("{} cubins and {} keys dropped, {} bytes became {}\n", collected.cubins,
                   collected.keys, grouped(collected.bytesBefore), grouped(collected.bytesAfter)));
  return 0;
}

int refresh(const CacheRequest& request) {
  using State = cache::Refreshed::State;
  std::vector<cache::Refreshed> all;
  {
    StatusLine line(!request.json);
    all = cache::refresh(request.store, request.nvrtc,
                         [&](std::size_t done, std::size_t of) { line.show(done, of, "choices"); });
  }
  auto count = [&](State state) {
    return std::ranges::count(all, state, &cache::Refreshed::state);
  };
  ordered_json stale = ordered_json::array();
  std::string text;
  for (const cache::Refreshed& choice : all)
    if (choice.state == State::stale) {
      stale.push_back({{"key", choice.key}, {"label", choice.label}});
      text +=
          formatPrintable("{} {}: other code than it was\n", shortName(choice.key), choice.label);
    }
  tell(request,
       {{"current", count(State::current)}, {"carried", count(State::carried)}, {"stale", stale}},
       text + fmt::format("{} choices are current, {} were taken over, {} are stale{}\n",
                          count(State::current), count(State::carried), stale.size(),
                          stale.empty() ? "" : "; 'kernel-compile tune' makes them anew"));
  return 0;
}

int doctor(const CacheRequest& request) {
  auto findings = cache::doctor(request.store);
  tell(request, {{"findings", tool::toJson(findings)}}, tool::textOf(findings));
  return hasBroken(findings) ? exitCode(ErrorKind::corrupt) : 0;
}

using Work = int (*)(const CacheRequest&);

struct Adder {
  CLI::App& cache;
  Outcome& outcome;

  std::pair<CLI::App*, std::shared_ptr<CacheRequest>> operator()(const char* name, const char* what,
                                                                 const char* example, Work work) {
    auto request = std::make_shared<CacheRequest>();
    CLI::App* verb = cache.add_subcommand(name, what);
    verb->add_flag("--json", request->json, "print JSON");
    verb->footer(std::string("Example:\n  kernel-compile cache ") + example);
    verb->callback([request, work, &outcome = outcome] {
      outcome.json = request->json;
      for (const std::string* one : {&request->store, &request->file})
        if (!one->empty())
          warnOfOthers(*one);
      std::ranges::for_each(request->stores, warnOfOthers);
      outcome.code = work(*request);
    });
    return {verb, request};
  }
};

} // namespace

void addCache(CLI::App& app, Outcome& outcome) {
  CLI::App* cacheVerb = app.add_subcommand("cache", "stores of tuned kernels: look, merge, ship");
  cacheVerb->require_subcommand(1);
  cacheVerb->footer("Example:\n  kernel-compile cache ls tuned.db\n"
                    "kernel-compile cache VERB --help tells a verb's options and an example.");
  Adder add{*cacheVerb, outcome};
  auto storeOf = [](CLI::App* verb, CacheRequest& request) {
    verb->add_option("STORE", request.store, "the store's file")->required();
  };

  auto [ls, lsRequest] = add("ls", "what is chosen", "ls tuned.db --ops=softmax", list);
  storeOf(ls, *lsRequest);
  addFilter(*ls, lsRequest->filter);

  auto [showVerb, showRequest] =
      add("show", "everything about one key", "show tuned.db 3f2a91", show);
  storeOf(showVerb, *showRequest);
  showVerb->add_option("KEY", showRequest->key, "the first digits of its name")->required();

  auto [diffVerb, diffRequest] =
      add("diff", "where two stores choose differently; exit code 1 if they do",
          "diff mine.db theirs.db", diff);
  diffVerb->add_option("STORES", diffRequest->stores, "two files")->required()->expected(2);

  auto [mergeVerb, mergeRequest] = add("merge", "a new store of several, whatever their order",
                                       "merge a.db b.db -o all.db", merge);
  mergeVerb->add_option("STORES", mergeRequest->stores, "their files")->required()->expected(1, -1);
  mergeVerb->add_option("-o,--output", mergeRequest->output, "the new file")
      ->type_name("FILE")
      ->required();

  auto [exportVerb, exportRequest] =
      add("export", "choices and cubins to ship, in one file",
          "export tuned.db -o shipped.db --arch=sm_90a --ops=layer_norm,softmax", exportStore);
  storeOf(exportVerb, *exportRequest);
  exportVerb->add_option("-o,--output", exportRequest->output, "the file to write")
      ->type_name("FILE")
      ->required();
  addFilter(*exportVerb, exportRequest->filter);

  auto [importVerb, importRequest] =
      add("import", "take a store into another", "import shipped.db tuned.db", import);
  importVerb->add_option("FILE", importRequest->file, "to take in")->required();
  storeOf(importVerb, *importRequest);

  auto [pinVerb, pinRequest] =
      add("pin", "fix a choice against tuning", "pin tuned.db 3f2a91", pin);
  storeOf(pinVerb, *pinRequest);
  pinVerb->add_option("KEY", pinRequest->key, "the first digits of its name")->required();
  pinVerb->add_option("--schedule", pinRequest->schedule, "another of its proved candidates")
      ->type_name("TEXT");
  pinVerb->add_flag("--undo", pinRequest->undo, "open the key to tuning again");

  auto [gc, gcRequest] = add("gc", "drop cubins that no choice needs", "gc tuned.db", collect);
  storeOf(gc, *gcRequest);
  gc->add_flag("--stale", gcRequest->stale, "and all that other versions of Kiln made");

  auto [refreshVerb, refreshRequest] =
      add("refresh", "take over choices of other versions whose code is still the same",
          "refresh tuned.db", refresh);
  storeOf(refreshVerb, *refreshRequest);
  refreshVerb->add_option("--nvrtc", refreshRequest->nvrtc, "the NVRTC library to use")
      ->type_name("FILE");

  auto [doctorVerb, doctorRequest] =
      add("doctor", "check every row and cubin", "doctor tuned.db", doctor);
  storeOf(doctorVerb, *doctorRequest);
}

} // namespace kiln::tool

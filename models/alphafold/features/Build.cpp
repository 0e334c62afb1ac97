// See Build.h. A job is one structure or one sequence; jobs run side by side.
#include "models/alphafold/features/Build.h"

#include "models/alphafold/features/AlignmentFolder.h"
#include "models/common/Fail.h"

#include <algorithm>
#include <atomic>
#include <fmt/ranges.h>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

namespace kiln::alphafold {

namespace fs = std::filesystem;

namespace {

struct Job {
  fs::path structure; // or, if there is none,
  std::optional<Sequence> sequence;
};

bool isStructure(const fs::path& path) {
  return path.extension() == ".cif" ||
         (path.extension() == ".gz" && path.stem().extension() == ".cif");
}

/// Files are taken as they are named; of folders what looks like a structure.
std::vector<Job> jobsOf(const BuildOptions& options, std::vector<LeftOut>& leftOut) {
  std::vector<fs::path> files;
  for (const fs::path& given : options.structures) {
    std::error_code error;
    if (!fs::exists(given))
      models::fail(ErrorKind::missing, "--structures={} is not there", given.string());
    if (!fs::is_directory(given)) {
      files.push_back(given);
      continue;
    }
    for (auto at = fs::recursive_directory_iterator(given, error);
         !error && at != fs::recursive_directory_iterator(); at.increment(error))
      if (isStructure(at->path()))
        files.push_back(at->path());
    if (error)
      leftOut.push_back({given.string(), "the folder cannot be read: " + error.message()});
  }
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  std::vector<Job> jobs;
  for (const fs::path& file : files)
    jobs.push_back({file, {}});
  if (!options.sequences.empty())
    for (Sequence& sequence : parseFasta(readText(options.sequences)))
      jobs.push_back({{}, std::move(sequence)});
  if (jobs.empty())
    models::fail(ErrorKind::missing,
                 "there is no structure (*.cif, *.cif.gz) and no sequence to begin with");
  return jobs;
}

/// Who makes a chain of a name. Two that want the same lose it both, so that what is made does not
/// depend on which comes first.
class Names {
 public:
  /// Whether nobody has asked for this one before.
  bool claim(const std::string& name, const std::string& source) {
    const std::lock_guard lock(mutex);
    std::vector<std::string>& sources = all[name];
    sources.push_back(source);
    return sources.size() == 1;
  }

  /// When all is made: takes back what two have asked for.
  void takeBack(const fs::path& folder, BuildResult& result) {
    for (auto& [name, sources] : all) {
      if (sources.size() == 1)
        continue;
      for (auto* entries : {&result.made, &result.kept})
        std::erase_if(*entries, [&](const CacheEntry& one) { return one.name == name; });
      std::error_code notThere;
      fs::remove(cacheFile(folder, name), notThere);
      std::ranges::sort(sources);
      result.leftOut.push_back(
          {name, fmt::format("{} chains have this name, of {}; name them differently, or leave all "
                             "but one out",
                             sources.size(), fmt::join(sources, ", "))});
    }
  }

 private:
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>> all; // sources by name
};

class Worker {
 public:
  Worker(const BuildOptions& options, Names& names, BuildResult& result, std::mutex& mutex)
      : options(options), names(names), result(result), mutex(mutex) {}

  void run(const Job& job) {
    own = {};
    source = (job.sequence ? options.sequences : job.structure).string();
    try {
      if (job.sequence)
        readSequence(*job.sequence);
      else
        readStructure(job.structure);
    } catch (const std::exception& error) { // whatever it is, it ends with its file
      own.leftOut.push_back(
          {job.sequence ? job.sequence->name : job.structure.string(), error.what()});
    }
    const std::lock_guard lock(mutex);
    const auto append = [](auto& to, auto& from) {
      std::ranges::move(from, std::back_inserter(to));
    };
    append(result.made, own.made);
    append(result.kept, own.kept);
    append(result.leftOut, own.leftOut);
    append(result.notes, own.notes);
  }

 private:
  void readSequence(const Sequence& sequence) {
    if (!isChainName(sequence.name)) // before it becomes part of a path
      models::fail(ErrorKind::input,
                   "{} cannot name a chain: letters, digits, '_', '-' and '.' can",
                   inQuotes(sequence.name));
    AlignmentFolder folder(options.alignments / sequence.name, own.leftOut);
    makeOrKeep(sequence.name, sequence.letters, hashOf(sequence.letters), folder,
               [&](auto& alignments, auto& hits) {
                 return makeChain(sequence.name, sequence.letters, alignments, hits, options.chain,
                                  own.notes);
               });
    folder.leaveUnused(sequence.name, own.leftOut);
  }

  void readStructure(const fs::path& path) {
    const Text text = readText(path);
    const Structure structure = parseMmcif(text);
    const std::string id = !structure.id.empty() ? structure.id : path.stem().stem().string();
    if (!isChainName(id))
      models::fail(ErrorKind::input,
                   "its _entry.id is {}; letters, digits, '_', '-' and '.' can name it",
                   inQuotes(id));
    const std::string hash = hashOf(text.contents);
    AlignmentFolder shared(options.alignments / id, own.leftOut);
    std::set<std::string> ofThisFile;
    for (const ChainStructure& chain : structure.chains) {
      const std::string name = id + '_' + chain.author;
      if (!ofThisFile.insert(name).second) {
        own.leftOut.push_back({name, "another chain of " + path.string() + " has this name"});
        continue;
      }
      const auto make = [&](auto& alignments, auto& hits) {
        return makeChain(name, chain, structure, alignments, hits, options.chain, own.notes);
      };
      AlignmentFolder folder(isChainName(name) ? options.alignments / name : fs::path(),
                             own.leftOut);
      makeOrKeep(name, chain.sequence, hash, folder.isEmpty() ? shared : folder, make);
      folder.leaveUnused(name, own.leftOut);
    }
    shared.leaveUnused(id, own.leftOut);
  }

  template <typename Make>
  void makeOrKeep(const std::string& name, const std::string& sequence, const std::string& hash,
                  AlignmentFolder& folder, Make make) {
    try {
      const fs::path file = cacheFile(options.output, name);
      if (!names.claim(name, source))
        return;
      const std::string origin = hashOf(hash + folder.hash() + optionsText());
      if (auto known = knownEntry(file); !options.again && known && known->origin == origin)
        return own.kept.push_back(std::move(*known));
      const auto alignments = folder.alignmentsOf(sequence, own.leftOut);
      if (alignments.empty() && !options.chain.allowSingle)
        models::fail(
            ErrorKind::input,
            "there is no alignment of it in {}; --single makes features of the sequence alone",
            folder.path().string());
      own.made.push_back(
          writeChain(options.output, make(alignments, folder.hits(own.leftOut)), origin));
    } catch (const Error& error) {
      own.leftOut.push_back({name, error.what()});
    }
  }

  /// What is there and whole enough to be described; what is not is made anew.
  static std::optional<CacheEntry> knownEntry(const fs::path& file) try {
    return fs::exists(file) ? std::optional(readEntry(file)) : std::nullopt;
  } catch (const Error&) {
    return {};
  }

  std::string optionsText() const {
    const ChainOptions& chain = options.chain;
    return fmt::format("{} {} {} {} {}", chain.mostCells, chain.allowSingle,
                       chain.templates.structures.string(), chain.templates.latestRelease,
                       chain.templates.most);
  }

  const BuildOptions& options;
  Names& names;
  BuildResult& result;
  std::mutex& mutex;
  BuildResult own;    // of one job
  std::string source; // its file
};

} // namespace

BuildResult buildCache(const BuildOptions& options) {
  BuildResult result;
  const std::vector<Job> jobs = jobsOf(options, result.leftOut);
  Names names;
  std::mutex mutex;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    Worker worker(options, names, result, mutex);
    for (std::size_t job = next++; job < jobs.size(); job = next++) {
      worker.run(jobs[job]);
      if (options.progress)
        options.progress(jobs.size(), jobs[job].sequence ? jobs[job].sequence->name
                                                         : jobs[job].structure.filename().string());
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
    const std::int64_t wanted = options.workers > 0 ? options.workers : cores;
    while (std::ssize(threads) < std::min(wanted, std::ssize(jobs)))
      threads.emplace_back(work);
  }
  names.takeBack(options.output, result);
  // In an order that does not depend on the threads.
  for (auto* entries : {&result.made, &result.kept})
    std::ranges::sort(*entries, {}, &CacheEntry::name);
  for (auto* texts : {&result.leftOut, &result.notes})
    std::ranges::sort(*texts, {}, [](const LeftOut& one) { return std::tie(one.what, one.why); });
  return result;
}

} // namespace kiln::alphafold

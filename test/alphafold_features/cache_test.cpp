// The cache on disk: round trips, every kind of damage, several writers.
#include "Helpers.h"

#include "models/alphafold/features/Cache.h"
#include "models/alphafold/features/Packed.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace kiln::alphafold::test {

namespace {

/// Without the care that writeFile() takes of disks.
void overwrite(const fs::path& path, std::string_view bytes) {
  fs::remove(path); // file systems flush what is cut to nothing and written anew
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

TEST(Cache, GivesBackWhatWasWritten) {
  const Folder folder;
  for (auto [length, rows, templates] : {std::array{50, 20, 3}, {1, 1, 0}, {300, 400, 1}}) {
    const Chain chain = randomChain(length, rows, templates, std::uint64_t(length));
    const CacheEntry written = writeChain(folder.path / "below" / "it", chain, "abc");
    EXPECT_EQ(readChain(written.path), chain);
    const CacheEntry read = readEntry(written.path);
    EXPECT_EQ(read.name, chain.name);
    EXPECT_EQ(read.origin, "abc");
    EXPECT_EQ(read.length, length);
    EXPECT_EQ(read.msaRows, rows);
    EXPECT_EQ(read.templates, templates);
    EXPECT_EQ(read.resolution, chain.resolution);
    EXPECT_EQ(read.releaseDate, chain.releaseDate);
    EXPECT_EQ(read.resolved, written.resolved);
    EXPECT_EQ(read.commonestType, written.commonestType);
  }
  const auto all = readCache(folder.path / "below" / "it");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &CacheEntry::name));
}

TEST(Cache, SaysWhatIsMissing) {
  const Folder folder;
  EXPECT_EQ(refusal([&] { readCache(folder.path / "no"); }),
            (folder.path / "no").string() + " cannot be read: No such file or directory");
  EXPECT_EQ(refusal([&] { readCache(folder.path); }),
            folder.path.string() + " holds no chain (*.features); alphafold_features makes them");
  EXPECT_EQ(refusal([&] { cacheFile(folder.path, "../a"); }),
            "'../a' cannot name a chain: letters, digits, '_', '-' and '.' can");
  for (const char* name : {"", ".hidden", "a b", "a/b", "a\n"})
    EXPECT_FALSE(isChainName(name)) << name;
  EXPECT_FALSE(isChainName(std::string(201, 'a')));
  EXPECT_TRUE(isChainName("1k1a_A-2.b"));
}

/// A file with a byte changed, anywhere, is not taken for a chain.
TEST(Cache, NoticesEveryAlteredByteAndEveryLength) {
  const Folder folder;
  const Chain chain = randomChain(5, 3, 1, 1);
  const fs::path path = writeChain(folder.path, chain, "abc").path;
  const std::string whole = readFile(path);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string altered = whole;
    altered[i] = char(altered[i] ^ (1 << i % 8));
    overwrite(path, altered);
    const std::string why = refusal([&] { readChain(path); });
    EXPECT_TRUE(why.starts_with(path.string() + ": ") &&
                why.ends_with("; remove it and run alphafold_features again"))
        << i << ": " << why;
  }
  for (std::size_t size = 0; size < whole.size(); size += size < 100 ? 1 : 37) {
    overwrite(path, std::string_view(whole).substr(0, size));
    EXPECT_NE(refusal([&] { readChain(path); }), "no error") << size;
    EXPECT_NE(refusal([&] { readEntry(path); }), "no error") << size;
  }
  writeFile(path, whole + "x");
  EXPECT_NE(refusal([&] { readEntry(path); }).find("it is cut off or was appended to"),
            std::string::npos);
  std::string later = whole;
  later[8] = 2;
  writeFile(path, later);
  EXPECT_NE(refusal([&] { readEntry(path); }).find("its format has version 2, and 1 is read"),
            std::string::npos);
  writeFile(path, "data_1abc\n_entry.id 1abc\n" + std::string(100, '#'));
  EXPECT_NE(refusal([&] { readEntry(path); }).find("it is another kind of file"),
            std::string::npos);
}

/// What a hash does not find, because whoever wrote it made the hash too.
TEST(Cache, ChecksWhatIsPacked) {
  const auto refused = [](auto change) {
    Chain chain = randomChain(6, 4, 2, 2);
    change(chain);
    return refusal([&] { packed::chainOf(packed::plainBytes(chain)); });
  };
  EXPECT_EQ(refused([](Chain&) {}), "no error");
  EXPECT_EQ(refused([](Chain& c) { c.msa.types(1, 2) = 22; }),
            "its alignments hold the residue type 22; 21 is the last");
  EXPECT_EQ(refused([](Chain& c) { c.templates.aatype(0, 0) = 99; }),
            "its templates hold the residue type 99; 21 is the last");
  EXPECT_EQ(refused([](Chain& c) { c.sequence += 'A'; }),
            "its positions have another size than its 3 residues ask for");
  EXPECT_EQ(refused([](Chain& c) { c.sequence[0] = 'B'; }),
            "its sequence or its alignment is none");
  EXPECT_EQ(refused([](Chain& c) { c.msa.types.shape[0] = std::int64_t(1) << 62; }),
            "its sequence or its alignment is none");
  EXPECT_EQ(refused([](Chain& c) { c.positions.values[3] = NAN; }),
            "its numbers are not all finite");
  EXPECT_EQ(refused([](Chain& c) { c.templates.sumProbs.pop_back(); }),
            "it has 2 templates and 1 sums of probabilities");
  const std::string bytes = packed::plainBytes(randomChain(6, 4, 2, 2));
  for (std::size_t size = 0; size < bytes.size(); size += 7)
    EXPECT_NE(refusal([&] { packed::chainOf(std::string_view(bytes).substr(0, size)); }),
              "no error");
  EXPECT_EQ(refusal([&] { packed::chainOf(bytes + "x"); }), "more follows behind the chain");
  EXPECT_NE(refusal([&] { packed::decompress("rubbish", 10); }), "no error");
  EXPECT_NE(refusal([&] { packed::decompress(packed::compress(bytes), std::uint64_t(1) << 50); }),
            "no error");
}

TEST(Cache, SeveralProcessesWriteTheSameChains) {
  const Folder folder;
  constexpr int writers = 4, rounds = 20;
  std::vector<pid_t> children;
  for (int writer = 0; writer < writers; ++writer) {
    const pid_t child = fork();
    if (child == 0) { // each writes chains of another depth under the same names
      for (int round = 0; round < rounds; ++round) {
        Chain chain = randomChain(30, 10 + writer, 1, 5);
        chain.name = "shared_" + std::to_string(round % 3);
        writeChain(folder.path, chain, std::to_string(writer));
      }
      _exit(0);
    }
    children.push_back(child);
  }
  int reads = 0;
  for (bool isRunning = true; isRunning;) {
    isRunning = waitpid(children.back(), nullptr, WNOHANG) == 0;
    for (int i = 0; i < 3; ++i)
      if (const fs::path path = cacheFile(folder.path, "shared_" + std::to_string(i));
          fs::exists(path)) {
        const Chain chain = readChain(path); // throws if it is not whole
        EXPECT_GE(chain.msa.rows(), 10);
        ++reads;
      }
  }
  children.pop_back();
  for (pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_GT(reads, 0);
  EXPECT_EQ(readCache(folder.path).size(), 3U);
  for (const auto& entry : fs::directory_iterator(folder.path))
    EXPECT_EQ(entry.path().extension(), ".features") << entry.path() << " was left behind";
}

} // namespace

} // namespace kiln::alphafold::test

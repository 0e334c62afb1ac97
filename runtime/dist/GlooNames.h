// What c10d's header of its Gloo backend names of Gloo's own headers, which LibTorch does not bring
// along: types that it holds by pointer only. Nothing here is made, called or looked into.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace rendezvous {
class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys,
                    const std::chrono::milliseconds& timeout) = 0;
};
} // namespace rendezvous

namespace transport {
class Device;
class UnboundBuffer;
} // namespace transport

} // namespace gloo

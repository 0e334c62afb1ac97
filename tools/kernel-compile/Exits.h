// Exit codes of the command, as help and the manual page tell them.
#pragma once

namespace kiln::tool {

struct Exit {
  int code;
  const char* meaning;
};

inline constexpr Exit kExits[] = {
    {0, "done"},
    {1, "error"},
    {2, "wrong usage"},
    {3, "no schedule fits"},
    {4, "a result disagrees with fp64"},
    {5, "a store lacks what was demanded"},
    {6, "a choice became worse"},
    {7, "a damaged store"},
    {130, "tune was stopped by Ctrl-C"},
    {141, "whoever read the output has closed it"},
    {143, "tune was stopped by SIGTERM"},
};
inline constexpr int kUsage = 2;
inline constexpr int kClosedPipe = 141; // 128 + SIGPIPE, as a shell says of programs it ends

} // namespace kiln::tool

// What a test does in a child: its limits, privileges and user are the child's alone.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace chainio::tests {

// What `body` returns, 0 to 254; 255 when the child did not come to its end.
inline int in_child(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    if (waitpid(child, &status, 0) != child) return 255;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

}  // namespace chainio::tests

#include "tool/tool.h"

int main(int argc, char** argv) { return hfshard::tool_main(argc, argv); }

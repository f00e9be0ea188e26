// Nothing: this file is compiled for the precompiled header of its target.

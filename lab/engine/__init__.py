"""The real engine in the lab: SGLang prefill/decode pairs on a CPU, in a private network namespace.

``install`` makes an environment of its own, ``pair`` starts and stops a pair of one version, ``traffic`` sends the
scripted requests, ``truth`` says from memory content whose bytes each response read, and ``capture`` records what the
agent posted beside that truth. Nothing outside ``lab`` imports it.
"""

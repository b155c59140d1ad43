"""The library in a dozen lines."""

from dayfly import Sandbox

with Sandbox() as sandbox:
    execution = sandbox.run_code("import math\nprint('hello')\nmath.factorial(20)")
    print(execution.stdout, execution.text)

    sandbox.files.write("numbers.txt", "1 2 3")
    print(sandbox.run_code("sum(map(int, open('numbers.txt').read().split()))").text)

    failed = sandbox.run_code("1 / 0")
    print(failed.outcome, failed.error.name if failed.error else None)

    print(sandbox.commands.run(["uname", "-sr"]).text, sandbox.usage)

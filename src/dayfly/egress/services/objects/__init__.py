"""Objects of one prefix of a bucket: what a sandbox asks for is judged by operation, bucket and key, and asked for anew with credentials that
the sandbox never has."""

"""One prefix of a bucket, as this host asks for it: plain S3, unsigned, to the gateway, which judges and signs. What a store answers is
hostile: it is bounded, and what does not fit is refused."""

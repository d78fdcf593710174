"""Import HAR 1.2 recordings, with the additional fields that different programs write.

The specification: http://www.softwareishard.com/blog/har-12-spec/
"""

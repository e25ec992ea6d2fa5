"""What has to be compared, fetched and looked at so that no copy drifts or rots unnoticed. Plans only; nodes act."""

package org.resurge.phone;

import android.app.Notification;
import android.app.NotificationChannel;
import android.app.NotificationManager;
import android.app.PendingIntent;
import android.content.Context;
import android.content.Intent;
import android.os.Build;

/**
 * The notifications: the one that stands while the service runs, an ordinary one that stays when it could not, and alerts.
 * The first vanishes with its service, so what ended the service must not be said there.
 */
final class Notices {
    static final String STOP = "org.resurge.phone.STOP";
    private static final String RUNNING = "recording";
    private static final String STOPPED = "stopped";
    private static final String ALERTS = "alerts";
    private static final int STOPPED_ID = 1001; // the service's own is 1
    private static final int ALERTS_ID = 2000; // and one for each alert from here on
    private static final int FLAGS = PendingIntent.FLAG_IMMUTABLE | PendingIntent.FLAG_UPDATE_CURRENT;

    private Notices() {}

    static Notification running(Context context, String title, String text) {
        Intent stop = new Intent(context, context.getClass()).setAction(STOP);
        return builder(context, RUNNING, "Recording", NotificationManager.IMPORTANCE_LOW, title, text)
                .addAction(
                        new Notification.Action.Builder(
                                        null, "Stop", PendingIntent.getService(context, 1, stop, FLAGS))
                                .build())
                .setOngoing(true)
                .setOnlyAlertOnce(true)
                .build();
    }

    /** Stays until a person opens the app or wipes it away. */
    static void stopped(Context context, String title, String text) {
        Notification notice =
                builder(context, STOPPED, "Stopped", NotificationManager.IMPORTANCE_DEFAULT, title, text)
                        .setStyle(new Notification.BigTextStyle().bigText(text))
                        .setAutoCancel(true)
                        .build();
        manager(context).notify(STOPPED_ID, notice);
    }

    /** An alert of the gateway: rings once for its number, and stays until a person opens the app or wipes it away. */
    static void alert(Context context, int number, String title, String text) {
        Notification notice =
                builder(context, ALERTS, "Alerts", NotificationManager.IMPORTANCE_HIGH, title, text)
                        .setStyle(new Notification.BigTextStyle().bigText(text))
                        .setOnlyAlertOnce(true)
                        .setAutoCancel(true)
                        .build();
        manager(context).notify(ALERTS_ID + number, notice);
    }

    static void clear(Context context) {
        manager(context).cancel(STOPPED_ID);
    }

    private static NotificationManager manager(Context context) {
        return (NotificationManager) context.getSystemService(Context.NOTIFICATION_SERVICE);
    }

    private static Notification.Builder builder(
            Context context, String channel, String name, int importance, String title, String text) {
        Notification.Builder builder;
        if (Build.VERSION.SDK_INT >= 26) {
            NotificationChannel made = new NotificationChannel(channel, name, importance);
            made.setShowBadge(false);
            manager(context).createNotificationChannel(made);
            builder = new Notification.Builder(context, channel);
        } else {
            builder = new Notification.Builder(context);
        }
        Intent open = new Intent(context, MainActivity.class);
        return builder.setContentTitle(title == null || title.isEmpty() ? appName(context) : title)
                .setContentText(text)
                .setContentIntent(PendingIntent.getActivity(context, 0, open, FLAGS))
                .setSmallIcon(smallIcon(context));
    }

    /** What a person calls the app: a build chooses it. */
    private static CharSequence appName(Context context) {
        return context.getApplicationInfo().loadLabel(context.getPackageManager());
    }

    /** The status bar takes only the shape of an icon; the launcher's would be a white square there. */
    private static int smallIcon(Context context) {
        int notice = context.getResources().getIdentifier("notice", "drawable", context.getPackageName());
        return notice != 0 ? notice : context.getApplicationInfo().icon;
    }
}
